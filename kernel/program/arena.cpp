#include "meshwright/arena.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "program/held_storages.h"

namespace meshwright {

namespace {

// A piece of memory from when it is given out until it comes back, in occurrences of the step. It may be away in between, from
// behind `away` until before `back`.
struct Buffer {
  ProgramValueId value = kNoId;  // the one that it was made for
  std::int64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t away = 0;
  std::int64_t back = 0;
  std::int64_t offset = Arena::kNone;
  int holders = 0;  // storages that have it: more than one where it is taken over while a view is left

  [[nodiscard]] std::int64_t end() const { return offset + bytes; }
  [[nodiscard]] bool is_away_for(const Buffer& other) const { return away < other.first && other.last < back; }
  [[nodiscard]] bool meets(const Buffer& other) const {
    return first <= other.last && other.first <= last && !is_away_for(other) && !other.is_away_for(*this);
  }
};

struct Buffers {
  std::vector<Buffer> all;
  std::vector<std::uint32_t> of_place;  // by Program::place of a storage's owner; kNoId: none
};

std::int64_t aligned(std::int64_t bytes) { return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

// What is held, and when. Where an instruction takes a storage over, the buffer stays.
Buffers buffers_of(const Program& program) {
  HeldStorages held(program, program.order.microbatches);
  const std::vector<ProgramValueId> owners = storages(program);
  const std::vector<Occurrence> step = occurrences(program);
  const auto end = static_cast<std::int64_t>(step.size());
  Buffers buffers{{}, std::vector<std::uint32_t>(program.values.size() * static_cast<std::size_t>(program.order.microbatches), kNoId)};
  std::int64_t now = -1;
  std::uint32_t taken_over = kNoId;
  const auto on = [&](ProgramValueId owner, int change, std::size_t place) {
    std::uint32_t& index = buffers.of_place[place];
    if (change < 0 && index == kNoId) return;  // freed, but never made
    if (change > 0) {
      index = taken_over != kNoId ? taken_over : static_cast<std::uint32_t>(buffers.all.size());
      if (index == buffers.all.size()) buffers.all.push_back({.value = owner, .bytes = aligned(program.local_bytes(owner)), .first = now, .last = end});
    }
    Buffer& buffer = buffers.all[index];
    buffer.holders += change;
    buffer.last = buffer.holders > 0 ? end : now;
  };
  held.begin(on);
  for (const Occurrence& here : step) {
    ++now;
    const Instruction& instruction = program.instructions[here.instruction];
    taken_over = kNoId;
    if (instruction.takes_over()) {
      taken_over = buffers.of_place[program.place(owners[instruction.operands[0].value], instruction.operands_from(here.microbatch))];
    }
    held.run(instruction, here.microbatch, on);
  }
  return buffers;
}

// What lasts from step to step lies where it lay: a new value has the old one's buffer, which is away in between.
void keep_parameters(const Program& program, Buffers& buffers) {
  const std::vector<ProgramValueId> owners = storages(program);
  for (const ProgramParameter& parameter : program.parameters) {
    const std::uint32_t before = buffers.of_place[program.place(parameter.value, 0)];
    if (parameter.updated == kNoId) continue;
    std::uint32_t& after = buffers.of_place[program.place(owners[parameter.updated], program.order.microbatches - 1)];
    Buffer &old = buffers.all[before], &made = buffers.all[after];
    if (old.meets(made) || old.bytes != made.bytes) continue;
    old.away = old.last;
    old.back = made.first;
    old.last = made.last;
    made.bytes = 0;
    after = before;
  }
}

// Buffers that were placed, by stretches of the step, so that those that meet one are found without looking at all.
class Stretches {
 public:
  Stretches(std::vector<Buffer>& buffers, std::int64_t end)
      : buffers_(buffers), length_(std::max<std::int64_t>(1, (end + kStretches) / kStretches)), placed_(kStretches + 1) {}

  void put(std::uint32_t index) {
    for (std::size_t s = stretch(buffers_[index].first); s <= stretch(buffers_[index].last); ++s) placed_[s].push_back(index);
  }

  // By offset, each once.
  std::vector<std::uint32_t> meeting(const Buffer& buffer) const {
    std::vector<std::uint32_t> found;
    for (std::size_t s = stretch(buffer.first); s <= stretch(buffer.last); ++s) {
      for (const std::uint32_t index : placed_[s]) {
        const bool met_before = s > stretch(buffer.first) && stretch(buffers_[index].first) < s;
        if (!met_before && buffers_[index].meets(buffer)) found.push_back(index);
      }
    }
    std::sort(found.begin(), found.end(), [&](std::uint32_t a, std::uint32_t b) { return std::tie(buffers_[a].offset, a) < std::tie(buffers_[b].offset, b); });
    return found;
  }

 private:
  static constexpr std::int64_t kStretches = 256;

  [[nodiscard]] std::size_t stretch(std::int64_t at) const { return static_cast<std::size_t>(std::max<std::int64_t>(at, 0) / length_); }

  const std::vector<Buffer>& buffers_;
  const std::int64_t length_;
  std::vector<std::vector<std::uint32_t>> placed_;
};

std::int64_t lowest_offset(const std::vector<Buffer>& buffers, const std::vector<std::uint32_t>& in_the_way, std::int64_t offset, std::int64_t bytes) {
  for (const std::uint32_t index : in_the_way) {
    if (offset + bytes <= buffers[index].offset) break;
    offset = std::max(offset, buffers[index].end());
  }
  return offset;
}

std::string text(const Program& program, const Buffer& buffer) { return "'" + program.values[buffer.value].name + "'"; }

}  // namespace

Arena make_arena(const Program& program) {
  Buffers buffers = buffers_of(program);
  keep_parameters(program, buffers);
  std::vector<Buffer>& all = buffers.all;
  std::int64_t end = 0;
  for (const Buffer& buffer : all) end = std::max(end, buffer.last);
  const auto stays = [end](const Buffer& buffer) { return buffer.first < 0 && buffer.last == end; };
  Arena arena{0, std::vector<std::int64_t>(buffers.of_place.size(), Arena::kNone)};
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (!stays(all[i]) || all[i].away < all[i].back) {
      others.push_back(i);
      continue;
    }
    all[i].offset = arena.bytes;
    arena.bytes = all[i].end();
  }
  const auto rank = [&](std::uint32_t i) { return std::tuple(!stays(all[i]), -all[i].bytes, all[i].first, i); };
  std::sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  const std::int64_t begin = arena.bytes;
  Stretches placed(all, end);
  for (const std::uint32_t index : others) {
    Buffer& buffer = all[index];
    buffer.offset = lowest_offset(all, placed.meeting(buffer), begin, buffer.bytes);
    if (buffer.bytes > 0) placed.put(index);
    arena.bytes = std::max(arena.bytes, buffer.end());
  }
  const std::vector<ProgramValueId> owners = storages(program);
  for (std::size_t at = 0; at < arena.offsets.size(); ++at) {
    const std::size_t owner = program.place(owners[at % owners.size()], static_cast<std::int64_t>(at / owners.size()));
    if (buffers.of_place[owner] != kNoId) arena.offsets[at] = all[buffers.of_place[owner]].offset;
  }
  return arena;
}

Status check_arena(const Program& program, const Arena& arena) {
  Buffers buffers = buffers_of(program);
  for (std::size_t place = 0; place < buffers.of_place.size(); ++place) {
    if (buffers.of_place[place] == kNoId) continue;
    Buffer& buffer = buffers.all[buffers.of_place[place]];
    const std::int64_t offset = place < arena.offsets.size() ? arena.offsets[place] : Arena::kNone;
    if (buffer.offset != Arena::kNone && buffer.offset != offset) return bad_input(text(program, buffer) + " lies elsewhere where its storage is taken over");
    buffer.offset = offset;
    if (offset < 0 || buffer.end() > arena.bytes) return bad_input(text(program, buffer) + " lies outside of the arena");
  }
  // Through the step: what lies where, of what is there.
  std::vector<std::pair<std::int64_t, std::uint32_t>> changes;  // when, and which buffer; those that end before those that begin
  for (std::uint32_t i = 0; i < buffers.all.size(); ++i) {
    if (buffers.all[i].bytes == 0) continue;
    changes.emplace_back(2 * buffers.all[i].first, i);
    changes.emplace_back(2 * buffers.all[i].last + 1, i);
  }
  std::sort(changes.begin(), changes.end());
  std::map<std::int64_t, std::uint32_t> there;  // by offset
  for (const auto& [when, index] : changes) {
    const Buffer& buffer = buffers.all[index];
    if (when != 2 * buffer.first) {
      there.erase(buffer.offset);
      continue;
    }
    const auto above = there.lower_bound(buffer.offset);
    const Buffer* other = nullptr;
    if (above != there.end() && above->first < buffer.end()) other = &buffers.all[above->second];
    else if (above != there.begin() && buffers.all[std::prev(above)->second].end() > buffer.offset) other = &buffers.all[std::prev(above)->second];
    if (other != nullptr) return bad_input(text(program, buffer) + " lies over " + text(program, *other) + ", while both are there");
    there.emplace(buffer.offset, index);
  }
  return Done{};
}

}  // namespace meshwright
