// When the stages of a pipeline run what (stages.h): a step of all of them together, event by event of their schedule.
//
// What a forward, a backward and the update of one stage take, the simulation of its own program says (timeline.h), the device's host and the overlap of
// its own communication included. Devices run the events of their stages in their order, each as soon as what it receives is there: what is sent travels
// beside the computing, from the end of the event that sends it, or as soon as the links are free: devices send one message after the other, and receive one after the other,
// both ways at once, and what a message takes is what a device that receives it gets of it. Between stages that share devices it takes no time. Weights that stages share meet behind the last
// backward of all of these stages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/step_order.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct StageSpan {
  std::uint32_t stage = 0;
  StepEvent event;
  Ticks start = 0, end = 0;
};

// A message on its way.
struct SentSpan {
  Message message;
  std::int64_t microbatch = 0;
  Ticks start = 0, end = 0;
};

struct PipelineStep {
  std::vector<std::vector<StageSpan>> spans;  // by group of devices (GroupOrders), in its order; the updates last
  std::vector<std::vector<SentSpan>> sent;    // by the stage that sends, in its order; but for those of shared weights
  double step_seconds = 0;
  std::vector<double> busy_seconds;           // by stage
  // Shares of the time of all devices together. The first is what they wait; the others say why, and add up to it: because other devices take longer;
  // because what is sent is under way; and because a pipeline fills and drains.
  double bubble = 0, imbalance = 0, communication = 0, start = 0;
};

// Of finished programs, by stage, each with its profile. Linear in the number of events: what a stage's program does in a microbatch is simulated for at most three of them. Errors: those of joint_order
// and make_timeline.
MESHWRIGHT_API Result<PipelineStep> simulate_stages(std::span<const Program> programs, const OpTable& ops, std::span<const CostProfile> profiles, const GroupOrders& orders = {});

}  // namespace meshwright
