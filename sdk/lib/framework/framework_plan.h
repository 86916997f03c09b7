// The nearest plan that can be given as degrees of parallelism, with what it leaves of the plan that it was made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/backend.h"
#include "plan_reading.h"

namespace meshwright::framework {

enum class Again : std::uint8_t { none, parts, layers };  // what runs again for the backward

struct FrameworkPlan {
  std::int64_t dp = 1, tp = 1, cp = 1, ep = 1, pp = 1;
  std::int64_t chunks = 1;              // parts of the model on each of pp groups of devices
  std::int64_t etp = 1;                 // over which each expert's weights are in shards
  std::int64_t expert_data = 1;         // of dp: the devices that experts lie over, and tokens travel between
  std::int64_t experts_apart = 1;       // of dp: other devices that do something else where there are experts
  bool sequence_parallel = false;
  std::string schedule;                 // ours; "" of one stage
  std::int64_t micro_batch = 1;         // samples of a microbatch on each device of dp
  std::vector<std::int64_t> layers;     // by part of the model, along it
  ZeroStage zero = ZeroStage::none;
  std::int64_t zero_degree = 1;         // of dp * cp
  bool regather = false;
  Again again = Again::none;
  std::vector<LayerPart> parts;         // that run again
  std::int64_t again_layers = 0;        // of each part of the model, the first ones; 0: all
  bool keeps_products = false;          // all but products and attention runs again, whatever `parts` says
  std::vector<std::string> notes;       // sentences: what the plan has that this has not, and what was taken
  std::vector<std::string> priced;      // and how this is priced, where settings cannot say all of it

  [[nodiscard]] bool is_even() const;   // as many layers in each part
  [[nodiscard]] bool all_layers_again() const { return again == Again::layers && again_layers == 0; }
};

// Degrees, sizes, layers and ZeRO of a plan; its schedule and what runs again are left to who knows the framework's. `framework` is its name, for notes and errors.
// Errors: bad_input for what no degrees can say: stages without layers to cut between, a batch that no degree divides.
Result<FrameworkPlan> nearest_degrees(const PlanReading& plan, const std::string& framework);

// Two parts of the model that follow each other become one, until each group of devices has one.
void merge_chunks(FrameworkPlan& plan);

// Notes what runs again of the plan and not of the framework's.
void note_again(const PlanReading& plan, FrameworkPlan& made, const std::string& framework);

// How somebody would ask for it (EmittedFile::stands_for).
AskedPlan asked_plan(const PlanReading& plan, const FrameworkPlan& made);

// A note as one line of a comment, whatever bytes a plan's file put into it.
std::string line_text(const std::string& note);

// What stands at the head of a text: those notes, as lines of a comment. `framework` is its name.
std::string notes_text(const FrameworkPlan& plan, const std::string& framework);

// "12.3 %"
std::string percent_text(double share);

// "2, 2, 3"
std::string numbers_text(const std::vector<std::int64_t>& numbers);

}  // namespace meshwright::framework
