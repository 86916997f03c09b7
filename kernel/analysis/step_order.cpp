#include "meshwright/step_order.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace meshwright {

namespace {

constexpr std::size_t kLongestPeriod = 2;  // events of one repetition: a forward and a backward

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

Result<StepEvent> parse_event(const std::string& word) {
  StepEvent event;
  event.phase = word[0] == 'F' ? Phase::forward : Phase::backward;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), event.microbatch);
  const bool known = (word[0] == 'F' || word[0] == 'B') && error == std::errc{} && end == word.data() + word.size();
  if (!known) return bad_input("'" + word + "' is neither the forward of a microbatch, like F0, nor its backward, like B0");
  return event;
}

const char* letter(Phase phase) { return phase == Phase::forward ? "F" : phase == Phase::backward ? "B" : "update "; }

std::string text_of(const StepEvent& event) { return letter(event.phase) + std::to_string(event.microbatch); }

}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  return "?";
}

bool StepSegment::is_steady() const { return repeats > 2 && events.size() == 2; }

std::vector<StepEvent> StepOrder::events() const {
  std::vector<StepEvent> all;
  for (const StepSegment& segment : segments) {
    for (std::int64_t r = 0; r < segment.repeats; ++r) {
      for (const StepEvent& event : segment.events) all.push_back(shifted(event, r));
    }
  }
  return all;
}

StepOrder::Fullest StepOrder::fullest(Phase phase) const {
  Fullest found;
  std::int64_t begun = 0, ended = 0;
  for (const StepEvent& event : events()) {
    if (event.phase == Phase::forward) ++begun;
    if (event.phase == phase) found = std::max(found, Fullest{begun - ended, ended > 0, event.microbatch + 1 < microbatches});
    if (event.phase == Phase::backward) ++ended;
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
  std::int64_t next[2] = {0, 0};  // forward, backward
  for (std::string word; words >> word;) {
    const Result<StepEvent> event = parse_event(word);
    if (!event) return event.error();
    std::int64_t& turn = next[event->phase == Phase::forward ? 0 : 1];
    if (turn == microbatches) return bad_input("'" + word + "' is one too many: there are " + std::to_string(microbatches) + " microbatches");
    if (event->microbatch != turn) return bad_input("'" + word + "' stands where " + text_of({event->phase, turn}) + " is due: microbatches go in their order");
    if (event->phase == Phase::backward && turn >= next[0]) return bad_input("'" + word + "' stands before F" + std::to_string(turn));
    ++turn;
    events.push_back(*event);
  }
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const std::int64_t turn = next[phase == Phase::forward ? 0 : 1];
    if (turn < microbatches) return bad_input(text_of({phase, turn}) + " is missing: there are " + std::to_string(microbatches) + " microbatches, from 0 on");
  }
  return folded(std::move(events), microbatches);
}

std::string to_string(const StepOrder& order) {
  std::string text;
  for (const StepSegment& segment : order.segments) {
    const bool repeats = segment.repeats > 1;
    std::string events;
    for (const StepEvent& event : segment.events) {
      if (event.phase != Phase::update) events += (events.empty() ? "" : " ") + text_of(event);
    }
    if (events.empty()) continue;
    text += (text.empty() ? "" : " ") + (repeats ? "(" + events + ") x" + std::to_string(segment.repeats) : events);
  }
  return text;
}

std::string to_string(const StageEvent& event) { return std::to_string(event.stage) + text_of(event.event); }

Result<std::vector<StageEvent>> parse_stage_events(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<StageEvent> events;
  for (std::string word; words >> word;) {
    StageEvent& made = events.emplace_back();
    const auto [rest, wrong] = std::from_chars(word.data(), word.data() + word.size(), made.stage);
    if (wrong != std::errc() || *rest == '\0') return bad_input("'" + word + "' is no event of a stage; it is written like 3F0 or 3B0");
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
