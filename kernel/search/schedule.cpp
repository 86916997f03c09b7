#include "meshwright/schedule.h"

#include "tensor/guarded.h"

namespace meshwright {

namespace {

struct NamedSize {
  std::string_view name;
  std::uint32_t ScheduleShape::*size;
  std::uint32_t most;
};

constexpr NamedSize kSizes[] = {
    {"stages", &ScheduleShape::stages, kMostScheduleStages},
    {"chunks", &ScheduleShape::chunks, kMostScheduleChunks},
    {"microbatches", &ScheduleShape::microbatches, kMostScheduleMicrobatches},
};

// A size that is 0 counts as 1 here.
Status check_bounds(const ScheduleShape& shape) {
  std::uint64_t forwards = 1;
  for (const NamedSize& size : kSizes) {
    const std::uint32_t count = shape.*size.size;
    if (count > size.most) {
      return bad_input("a schedule of " + std::to_string(count) + " " + std::string(size.name) +
                       " is too large; at most " + std::to_string(size.most) + " are possible");
    }
    forwards *= count == 0 ? 1 : count;
  }
  if (forwards > kMostScheduleForwards) {
    return bad_input("a schedule of " + std::to_string(forwards) +
                     " forwards (stages times chunks times microbatches) is too large; at most " +
                     std::to_string(kMostScheduleForwards) + " are possible");
  }
  return Done{};
}

Status check_wanted(const ScheduleShape& wanted, const ScheduleShape& made) {
  for (const NamedSize& size : kSizes) {
    const std::uint32_t count = wanted.*size.size;
    if (count == 0 || count == made.*size.size) continue;
    return plugin_failed("the maker of schedules was asked for " + std::to_string(count) + " " +
                         std::string(size.name) + ", and gave " + std::to_string(made.*size.size));
  }
  return Done{};
}

}  // namespace

ScheduleMaker::~ScheduleMaker() = default;

Status validate(const ScheduleShape& shape) {
  for (const NamedSize& size : kSizes) {
    if (shape.*size.size == 0) return bad_input("a schedule needs at least 1 of its " + std::string(size.name));
  }
  return check_bounds(shape);
}

char letter(PipelineEventKind kind) {
  switch (kind) {
    case PipelineEventKind::forward:
      return 'F';
    case PipelineEventKind::backward:
      return 'B';
    case PipelineEventKind::input_gradient:
      return 'I';
    case PipelineEventKind::weight_gradient:
      return 'W';
  }
  return '?';
}

std::string_view name(PipelineEventKind kind) {
  switch (kind) {
    case PipelineEventKind::forward:
      return "forward";
    case PipelineEventKind::backward:
      return "backward";
    case PipelineEventKind::input_gradient:
      return "input gradient";
    case PipelineEventKind::weight_gradient:
      return "weight gradient";
  }
  return "unknown";
}

std::string to_string(const PipelineSchedule& schedule, std::size_t stage, const PipelineEvent& event) {
  return std::to_string(schedule.position(stage, event.chunk)) + letter(event.kind) + std::to_string(event.microbatch);
}

Result<PipelineSchedule> ScheduleMaker::make(const ScheduleShape& wanted) const {
  if (Status status = check_bounds(wanted); !status) return status.error();
  const auto who = [] { return std::string("the maker of schedules"); };
  Result<PipelineSchedule> made = guarded(who, [&] { return do_make(wanted); });
  if (!made) return made;
  if (Status status = check_wanted(wanted, made->shape); !status) return status.error();
  if (Status status = validate(*made); !status) {
    return plugin_failed("the maker of schedules gave one that can't run: " + status.error().message);
  }
  return made;
}

}  // namespace meshwright
