#include "meshwright/step_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace meshwright {

namespace {

constexpr std::size_t kLongestPeriod = 3;  // events of one repetition: a forward and a backward in two parts

StepEvent shifted(const StepEvent& event, std::int64_t by) { return {event.phase, event.microbatch + by}; }

// Finds what repeats in a list of events.
class Folding {
 public:
  Folding(const std::vector<StepEvent>& events, std::int64_t microbatches) : events_(events), microbatches_(microbatches) {}

  std::vector<StepSegment> run() {
    for (std::size_t at = 0; at < events_.size();) {
      const auto [period, repeats] = repetition_at(at);
      if (repeats < 2) {
        add_single(events_[at]);
        ++at;
        continue;
      }
      const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(at);
      segments_.push_back({{begin, begin + static_cast<std::ptrdiff_t>(period)}, static_cast<std::int64_t>(repeats)});
      at += period * repeats;
    }
    return std::move(segments_);
  }

 private:
  void add_single(const StepEvent& event) {
    if (segments_.empty() || segments_.back().repeats > 1) segments_.emplace_back();
    segments_.back().events.push_back(event);
  }

  // The shortest period that repeats from here on, and how often.
  [[nodiscard]] std::pair<std::size_t, std::size_t> repetition_at(std::size_t at) const {
    for (std::size_t period = 1; period <= kLongestPeriod && at + 2 * period <= events_.size(); ++period) {
      std::size_t like = 0;  // events that are as the period says
      while (at + like < events_.size() && is_between(events_[at + like]) &&
             (like < period || events_[at + like] == shifted(events_[at + like - period], 1))) {
        ++like;
      }
      if (like >= 2 * period) return {period, like / period};
    }
    return {1, 1};
  }

  [[nodiscard]] bool is_between(const StepEvent& event) const {
    return event.phase != Phase::update && event.microbatch > 0 && event.microbatch < microbatches_ - 1;
  }

  const std::vector<StepEvent>& events_;
  const std::int64_t microbatches_;
  std::vector<StepSegment> segments_;
};

StepOrder folded(std::vector<StepEvent> events, std::int64_t microbatches) {
  events.push_back({Phase::update, microbatches - 1});
  return {microbatches, Folding(events, microbatches).run()};
}

constexpr std::string_view kLetters = "FBIW";  // of the phases but the update

Result<StepEvent> parse_event(const std::string& word) {
  StepEvent event;
  const std::size_t letter = kLetters.find(word[0]);
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), event.microbatch);
  if (letter == std::string_view::npos || error != std::errc{} || end != word.data() + word.size()) {
    return bad_input("'" + word + "' is neither the forward of a microbatch, like F0, nor its backward, like B0, nor a part of it, like I0 and W0");
  }
  event.phase = static_cast<Phase>(letter);
  return event;
}

// All backwards in two parts, if one is.
std::vector<StepEvent> in_parts(const std::vector<StepEvent>& events) {
  if (std::ranges::none_of(events, [](const StepEvent& event) { return event.phase == Phase::input_gradient || event.phase == Phase::weight_gradient; })) return events;
  std::vector<StepEvent> made;
  for (const StepEvent& event : events) {
    made.push_back(event);
    if (event.phase != Phase::backward) continue;
    made.back().phase = Phase::input_gradient;
    made.push_back({Phase::weight_gradient, event.microbatch});
  }
  return made;
}

// That each microbatch has its turn in each of the phases, and these come one behind the other.
Status check_turns(const std::vector<StepEvent>& events, std::int64_t microbatches) {
  const bool parts = std::ranges::any_of(events, [](const StepEvent& event) { return event.phase == Phase::input_gradient; });
  const std::vector<Phase> phases = parts ? std::vector{Phase::forward, Phase::input_gradient, Phase::weight_gradient} : std::vector{Phase::forward, Phase::backward};
  std::vector<std::int64_t> next(phases.size(), 0);
  for (const StepEvent& event : events) {
    const std::size_t phase = static_cast<std::size_t>(std::ranges::find(phases, event.phase) - phases.begin());
    const std::string word = "'" + to_string(event) + "'";
    if (phase == phases.size()) return bad_input(word + " is a second part of a backward, and there are no first ones");
    const std::int64_t turn = next[phase]++;
    if (turn == microbatches) return bad_input(word + " is one too many: there are " + std::to_string(microbatches) + " microbatches");
    if (event.microbatch != turn) return bad_input(word + " stands where " + to_string(StepEvent{event.phase, turn}) + " is due: microbatches go in their order");
    if (phase > 0 && turn >= next[phase - 1]) return bad_input(word + " stands before " + to_string(StepEvent{phases[phase - 1], turn}));
  }
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    if (next[phase] < microbatches) return bad_input(to_string(StepEvent{phases[phase], next[phase]}) + " is missing: there are " + std::to_string(microbatches) + " microbatches, from 0 on");
  }
  return Done{};
}

}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::input_gradient: return "gradient of inputs";
    case Phase::weight_gradient: return "gradient of weights";
    case Phase::update: return "update";
  }
  return "?";
}

std::string to_string(const StepEvent& event) { return kLetters[static_cast<std::size_t>(event.phase)] + std::to_string(event.microbatch); }

bool StepSegment::is_steady() const {
  std::array<std::size_t, kPhases> count = {};
  for (const StepEvent& event : events) ++count[static_cast<std::size_t>(event.phase)];
  const auto of = [&](Phase phase) { return count[static_cast<std::size_t>(phase)]; };
  return repeats > 2 && of(Phase::forward) == 1 && of(Phase::backward) + of(Phase::input_gradient) == 1 && of(Phase::weight_gradient) == of(Phase::input_gradient);
}

std::vector<StepEvent> StepOrder::events() const {
  std::vector<StepEvent> all;
  for (const StepSegment& segment : segments) {
    for (std::int64_t r = 0; r < segment.repeats; ++r) {
      for (const StepEvent& event : segment.events) all.push_back(shifted(event, r));
    }
  }
  return all;
}

bool StepOrder::has_parts() const {
  return std::ranges::any_of(segments, [](const StepSegment& segment) { return std::ranges::find(segment.events, Phase::input_gradient, &StepEvent::phase) != segment.events.end(); });
}

StepOrder::Fullest StepOrder::fullest(Phase phase) const {
  Fullest found;
  std::int64_t begun = 0, ended = 0;
  for (const StepEvent& event : events()) {
    if (event.phase == Phase::forward) ++begun;
    const bool counts = phase == Phase::forward ? event.phase == phase : is_backward(event.phase);
    if (counts) found = std::max(found, Fullest{begun - ended, ended > 0, event.microbatch + 1 < microbatches});
    if (ends_microbatch(event.phase)) ++ended;
  }
  return found;
}

Result<StepOrder> step_order(const TrainingSettings& training) {
  if (!training.order.empty()) return parse_step_order(training.order, training.microbatches);
  std::vector<StepEvent> events;
  for (std::int64_t microbatch = 0; microbatch < training.microbatches; ++microbatch) {
    events.push_back({Phase::forward, microbatch});
    events.push_back({Phase::backward, microbatch});
  }
  return folded(std::move(events), training.microbatches);
}

Result<StepOrder> parse_step_order(const std::string& text, std::int64_t microbatches) {
  std::istringstream words(text);
  std::vector<StepEvent> events;
  for (std::string word; words >> word;) {
    const Result<StepEvent> event = parse_event(word);
    if (!event) return event.error();
    events.push_back(*event);
  }
  events = in_parts(events);
  if (Status status = check_turns(events, microbatches); !status) return status.error();
  return folded(std::move(events), microbatches);
}

std::string to_string(const StepOrder& order) {
  std::string text;
  for (const StepSegment& segment : order.segments) {
    const bool repeats = segment.repeats > 1;
    std::string events;
    for (const StepEvent& event : segment.events) {
      if (event.phase != Phase::update) events += (events.empty() ? "" : " ") + to_string(event);
    }
    if (events.empty()) continue;
    text += (text.empty() ? "" : " ") + (repeats ? "(" + events + ") x" + std::to_string(segment.repeats) : events);
  }
  return text;
}

std::string to_string(const StageEvent& event) { return std::to_string(event.stage) + to_string(event.event); }

Result<std::vector<StageEvent>> parse_stage_events(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<StageEvent> events;
  for (std::string word; words >> word;) {
    StageEvent& made = events.emplace_back();
    const auto [rest, wrong] = std::from_chars(word.data(), word.data() + word.size(), made.stage);
    if (wrong != std::errc() || *rest == '\0') return bad_input("'" + word + "' is no event of a stage; it is written like 3F0, 3B0, 3I0 or 3W0");
    const Result<StepEvent> event = parse_event(rest);
    if (!event) return add_context("'" + word + "'", event.error());
    made.event = *event;
  }
  return events;
}

std::int64_t ShortenedOrder::microbatch_at(std::size_t event) const {
  std::int64_t microbatch = events[event].microbatch;
  for (const Gap& gap : gaps) microbatch += event >= gap.event ? gap.repetitions : 0;
  return microbatch;
}

ShortenedOrder shortened(const StepOrder& order) {
  ShortenedOrder made;
  std::int64_t left_out = 0;
  for (const StepSegment& segment : order.segments) {
    const std::int64_t gap = segment.is_steady() ? segment.repeats - 2 : 0;
    for (std::int64_t r = 0; r < segment.repeats - gap; ++r) {
      if (r == 1 && gap > 0) made.gaps.push_back({made.events.size(), segment.events.size(), gap});
      for (const StepEvent& event : segment.events) made.events.push_back(shifted(event, r - left_out));
    }
    left_out += gap;
  }
  made.microbatches = order.microbatches - left_out;
  return made;
}

}  // namespace meshwright
