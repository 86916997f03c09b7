#include "meeting.h"

#include <algorithm>
#include <tuple>

namespace meshwright {

Meeting::Meeting(std::int64_t ranks, std::function<std::string(std::size_t)> describe)
    : describe_(std::move(describe)), members_(static_cast<std::size_t>(ranks)), running_(ranks) {}

bool Meeting::goes_on(std::size_t instruction) const { return instruction <= failed_instruction_.load(std::memory_order_acquire); }

bool Meeting::stands_at(std::int64_t rank, const Place& place) const {
  const Member& member = members_[static_cast<std::size_t>(rank)];
  return member.state == State::waits && *member.place == place;
}

void Meeting::release(Member& member, State state) {
  member.state = state;
  member.place = nullptr;
  member.ready = nullptr;
  ++running_;
}

bool Meeting::wait(std::int64_t rank, const Place& place) {
  std::unique_lock lock(mutex_);
  if (place.step == 0 && place.instruction > failed_instruction_) return false;
  Member& self = members_[static_cast<std::size_t>(rank)];
  self.state = State::waits;
  self.place = &place;
  --running_;
  if (std::ranges::all_of(place.ranks, [&](std::int64_t other) { return stands_at(other, place); })) {
    for (const std::int64_t other : place.ranks) release(members_[static_cast<std::size_t>(other)], State::met);
    self.state = State::runs;
    lock.unlock();  // first: who is woken wants it
    for (const std::int64_t other : place.ranks) {
      if (other != rank) members_[static_cast<std::size_t>(other)].changed.notify_one();
    }
    return true;
  }
  check_progress();
  self.changed.wait(lock, [&] { return self.state != State::waits; });
  const bool met = self.state == State::met;
  self.state = State::runs;
  return met;
}

bool Meeting::wait_until(std::int64_t rank, const Place& place, const std::function<bool()>& ready) {
  std::unique_lock lock(mutex_);
  if (ready()) return true;
  if (place.instruction > failed_instruction_) return false;
  Member& self = members_[static_cast<std::size_t>(rank)];
  self.state = State::waits;
  self.place = &place;
  self.ready = &ready;
  --running_;
  check_progress();
  self.changed.wait(lock, [&] { return self.state != State::waits; });
  const bool met = self.state == State::met;
  self.state = State::runs;
  return met;
}

void Meeting::change(const std::function<void()>& what) {
  const std::lock_guard lock(mutex_);
  what();
  for (Member& member : members_) {
    if (member.ready == nullptr || !(*member.ready)()) continue;
    release(member, State::met);
    member.changed.notify_one();
  }
}

void Meeting::dismiss(Member& member) {
  release(member, State::dismissed);
  member.changed.notify_one();
}

void Meeting::record(std::int64_t rank, std::size_t instruction, Error error) {
  if (std::tuple(instruction, rank) >= std::tuple(failed_instruction_.load(), failed_rank_)) return;
  failed_instruction_ = instruction;
  failed_rank_ = rank;
  failure_ = std::move(error);
  for (Member& member : members_) {
    if (member.state != State::waits || member.place->step > 0) continue;
    if (member.place->instruction > failed_instruction_) dismiss(member);
  }
}

void Meeting::fail(std::int64_t rank, std::size_t instruction, Error error) {
  const std::lock_guard lock(mutex_);
  record(rank, instruction, std::move(error));
}

void Meeting::leave(std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  members_[static_cast<std::size_t>(rank)].state = State::left;
  --running_;
  check_progress();
}

// When nobody runs, the first place that somebody waits at is where the ranks parted.
void Meeting::check_progress() {
  if (running_ > 0) return;
  const Place* first = nullptr;
  for (const Member& member : members_) {
    if (member.state != State::waits) continue;
    if (!first || member.place->instruction < first->instruction) first = member.place;
  }
  if (!first) return;
  const std::size_t instruction = first->instruction;
  record(static_cast<std::int64_t>(members_.size()), instruction, internal_error(explain(*first)));
  for (Member& member : members_) {
    if (member.state == State::waits) dismiss(member);
  }
}

std::string Meeting::explain(const Place& place) const {
  const bool waits_for_change = std::ranges::any_of(members_, [&](const Member& member) { return member.place == &place && member.ready != nullptr; });
  if (waits_for_change) return describe_(place.instruction) + ": nobody sends it";
  std::string came, missing;
  for (const std::int64_t rank : place.ranks) {
    const std::string name = std::to_string(rank);
    if (stands_at(rank, place)) {
      came += (came.empty() ? "" : ", ") + name;
      continue;
    }
    const Member& member = members_[static_cast<std::size_t>(rank)];
    missing += (missing.empty() ? "rank " : ", rank ") + name;
    missing += member.state == State::left ? " has left" : " waits at " + describe_(member.place->instruction);
  }
  return describe_(place.instruction) + ": not all ranks of the group entered it: came " + came + "; " + missing;
}

std::optional<Error> Meeting::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace meshwright
