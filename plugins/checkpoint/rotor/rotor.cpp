#include "rotor.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

#include "meshwright/plugin.h"
#include "segments.h"
#include "time_table.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostEntries = std::size_t{1} << 30;  // 8 GiB

struct Segment {
  std::size_t first = 0, last = 0;
  std::int64_t room = 0;  // in slots
};

// The stage that the segment checkpoints first, or `first` if its first stage keeps all.
using ChooseWay = std::function<std::size_t(const Segment& segment)>;

class ScheduleWriter {
 public:
  ScheduleWriter(const SegmentNeeds& needs, Slots slots, const ChooseWay& choose)
      : needs_(needs), slots_(slots), choose_(choose) {}

  void write(const Segment& segment) {
    const auto [first, last, room] = segment;
    const std::size_t k = choose_(segment);
    if (k == first) {
      add(ChainOperationKind::forward_keep_all, first);
      if (first < last) write({first + 1, last, room - slots_.held(needs_.saved(first))});
      add(ChainOperationKind::backward, first);
      return;
    }
    add(ChainOperationKind::forward_keep_input, first);
    for (std::size_t stage = first + 1; stage < k; ++stage) add(ChainOperationKind::forward_keep_nothing, stage);
    write({k, last, room - slots_.held(needs_.input(k))});
    write({first, k - 1, room});
  }

  ChainSchedule take() { return std::move(schedule_); }

 private:
  void add(ChainOperationKind kind, std::size_t stage) {
    schedule_.push_back({kind, static_cast<std::uint32_t>(stage)});
  }

  const SegmentNeeds& needs_;
  const Slots slots_;
  const ChooseWay& choose_;
  ChainSchedule schedule_;
};

// So large that `room` has at most `slots`, and at least half of them: the greatest common divisor of all sizes if that
// does, else what rounds least in all.
Slots choose_slots(const SegmentNeeds& needs, std::int64_t room, std::int64_t slots, Rounding rounding) {
  if (room / needs.divisor() <= slots) return Slots(needs.divisor(), rounding);
  Slots best(1);
  TickSum least_error = -1;
  for (std::int64_t count = slots; count >= (slots + 1) / 2; --count) {
    const Slots tried((room + count - 1) / count, rounding);
    TickSum error = 0;
    const auto add_error = [&](std::int64_t bytes) {
      const TickSum rounded = TickSum{tried.held(bytes)} * tried.bytes() - bytes;
      error += rounded < 0 ? -rounded : rounded;
    };
    for (std::size_t stage = 0; stage < needs.triangle().stages(); ++stage) {
      add_error(needs.saved(stage));
      add_error(needs.input(stage));
    }
    if (least_error >= 0 && error >= least_error) continue;
    least_error = error;
    best = tried;
  }
  return best;
}

class Search {
 public:
  Search(const Chain& chain, std::int64_t slots)
      : chain_(chain), slots_(slots), last_(chain.stages.size() - 1), needs_(chain), least_(needs_, Slots(1)) {}

  // Budgets are asked for from the largest to the smallest, so that a table serves as many as it can.
  Result<CheckpointAnswer> answer(std::int64_t budget) {
    const std::int64_t least_bytes = needs_.input(0) + least_.of(0, last_);
    if (budget < least_bytes) return no_answer_below(least_bytes, "least memory of all segments");
    Result<CheckpointAnswer> everything = answer_by(chain_, keep_everything(chain_), "everything kept");
    if (!everything || everything->peak_bytes <= budget) return everything;
    const std::int64_t room = budget - needs_.input(0);
    Result<CheckpointAnswer> best = without_table(room, KeepAll::where_everything_fits);
    const Result<CheckpointAnswer> early = without_table(room, KeepAll::as_long_as_it_fits);
    if (!best || !early) return best ? early : best;
    take_faster(*early, *best);
    if (Status status = make_table(room); !status) return status.error();
    const Result<Found> found = read_table(*table_, room);
    if (!found) return found.error();
    take_faster(found->answer, *best);
    // Where many slots were lost, sizes were not rounded down by chance: many are alike, or less than half a slot.
    const std::int64_t enough = 9 * table_->slots().in(room) / 10;
    if (found->slots >= enough) return best;
    const Slots slots = choose_slots(needs_, room, slots_, Rounding::up);
    const TimeTable rounded_up(chain_, needs_, slots, slots.in(room));
    const Result<Found> safe = read_table(rounded_up, room);
    if (!safe) return safe.error();
    take_faster(safe->answer, *best);
    return best;
  }

 private:
  struct Found {
    std::int64_t slots = -1;  // of the budget, that the schedule was made for
    std::optional<CheckpointAnswer> answer;
  };

  [[nodiscard]] bool is_exact(const TimeTable& table) const { return needs_.divisor() % table.slots().bytes() == 0; }

  static void take_faster(const std::optional<CheckpointAnswer>& answer, CheckpointAnswer& best) {
    if (answer && (answer->status == SolveStatus::optimal || answer->ticks < best.ticks)) best = *answer;
  }

  Status make_table(std::int64_t room) {
    // A smaller room has fewer of the slots of a larger one.
    const bool can_be_exact = room / needs_.divisor() <= slots_;
    if (table_ && (is_exact(*table_) || (!can_be_exact && table_->slots().in(room) >= slots_ / 2))) return Done{};
    const Slots slots = choose_slots(needs_, room, slots_, Rounding::nearest);
    if (TimeTable::entries(needs_.triangle(), slots.in(room)) > kMostEntries) {
      return bad_input("rotor: a chain of " + std::to_string(last_ + 1) + " stages with " +
                       std::to_string(slots.in(room)) +
                       " slots of memory needs a table of more than 8 GiB; lower [search.rotor] slots, or give the "
                       "chain fewer stages");
    }
    if (!TimeTable::fits(chain_)) {
      return bad_input("rotor: the forwards of the chain take too long to be added up; give times in ticks of ticks.h");
    }
    table_.reset();  // before there are two
    table_.emplace(chain_, needs_, slots, slots.in(room));
    return Done{};
  }

  // The schedule of the most slots whose schedule fits `room` in bytes too, if there is one.
  Result<Found> read_table(const TimeTable& table, std::int64_t room) const {
    const ChooseWay choose = [&](const Segment& segment) {
      return table.way(segment.first, segment.last, segment.room);
    };
    for (std::int64_t slots = table.slots().in(room); table.ticks(0, last_, slots) != TimeTable::kNever; --slots) {
      ScheduleWriter writer(needs_, table.slots(), choose);
      writer.write({0, last_, slots});
      Result<CheckpointAnswer> answer = answer_by(chain_, writer.take(),
                                                  "dynamic program, " + std::to_string(slots) + " slots of " +
                                                      std::to_string(table.slots().bytes()) + " bytes");
      if (!answer) return answer.error();
      if (answer->peak_bytes > needs_.input(0) + room) continue;
      answer->ticks = table.ticks(0, last_, slots);
      if (is_exact(table)) answer->status = SolveStatus::optimal;
      return Found{slots, *std::move(answer)};
    }
    return Found{};
  }

  enum class KeepAll : std::uint8_t {
    where_everything_fits,  // a segment in which nothing needs to run twice
    as_long_as_it_fits,     // each stage behind which the rest can be processed at all
  };

  // Counts bytes, so it is there whatever slots do. Where a stage does not keep all, the segment is checkpointed as
  // near to its middle as the least rooms let it.
  Result<CheckpointAnswer> without_table(std::int64_t room, KeepAll keep_all) const {
    const ChooseWay choose = [&](const Segment& segment) {
      const auto [first, last, bytes] = segment;
      const std::int64_t to_keep = keep_all == KeepAll::where_everything_fits ? least_.of_everything(first, last)
                                                                              : least_.of_keeping_all(first, last);
      std::size_t best = first;
      if (to_keep <= bytes) return best;
      const auto from_middle = [&](std::size_t k) {
        const auto twice = static_cast<std::int64_t>(2 * k), both = static_cast<std::int64_t>(first + last + 1);
        return twice > both ? twice - both : both - twice;
      };
      for (std::size_t k = first + 1; k <= last; ++k) {
        if (least_.of_checkpoint(first, k, last) > bytes) continue;
        if (best == first || from_middle(k) < from_middle(best)) best = k;
      }
      return best;
    };
    ScheduleWriter writer(needs_, Slots(1), choose);
    writer.write({0, last_, room});
    return answer_by(chain_, writer.take(), "checkpoints in the middle of what does not fit");
  }

  const Chain& chain_;
  const std::int64_t slots_;
  const std::size_t last_;
  const SegmentNeeds needs_;
  const LeastRoom least_;
  std::optional<TimeTable> table_;
};

}  // namespace

Result<std::vector<CheckpointAnswer>> Rotor::do_solve(const Chain& chain, std::span<const std::int64_t> budgets) const {
  Search search(chain, slots_);
  std::vector<CheckpointAnswer> answers(budgets.size());
  for (std::size_t i = budgets.size(); i-- > 0;) {
    Result<CheckpointAnswer> answer = search.answer(budgets[i]);
    if (!answer) return answer.error();
    answers[i] = *std::move(answer);
  }
  // A smaller budget has finer slots, and its schedule fits a larger one too.
  for (std::size_t i = 1; i < answers.size(); ++i) {
    if (answers[i - 1].status == SolveStatus::infeasible || answers[i - 1].ticks >= answers[i].ticks) continue;
    answers[i] = answers[i - 1];
    answers[i].status = SolveStatus::heuristic;
  }
  return answers;
}

namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"slots", "integer", "", "500",
     "parts in which the memory of a chain is counted: more are nearer to the bytes, and take as much longer"}};

void* create(const Config& config, Error& error) {
  const std::int64_t slots = config.integer("slots");
  if (slots > 0) return static_cast<CheckpointSolver*>(new Rotor(slots));
  error = bad_input("slots must be more than 0");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("checkpoint", "rotor", "0.1.0", "Apache-2.0",
                  "MAP's Theorem 5.1: the fastest schedule of a chain, by dynamic programming", nullptr, kSchema,
                  std::size(kSchema), create, destroy_plugin<CheckpointSolver>)

}  // namespace meshwright
