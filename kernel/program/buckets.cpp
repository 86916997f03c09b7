#include "program/buckets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace meshwright {

namespace {

// What travels together: collectives of one kind over the same axes, of one dtype.
using Way = std::tuple<MoveKind, AxisSet, DType>;

class Filling {
 public:
  explicit Filling(const Program& program) : program_(program), owners_(storages(program)), held_(program.values.size(), 0) {}

  void add(const Occurrence& at, std::size_t place) {
    const Instruction& instruction = program_.instructions[at.instruction];
    const bool in_this_backward = is_backward(instruction.phase) && at.microbatch == microbatch_;
    if (!in_this_backward) {
      send_all();
      sent_one_ = false;
    }
    microbatch_ = at.microbatch;
    if (const auto pack = pack_behind(instruction); pack != packs_.end()) {
      hold(place, instruction, pack->second);
      return;
    }
    if (full_) send(packs_.find(*full_));
    if (reduces_gradient(instruction) && !needs_held(instruction)) {
      reduce(place, instruction);
      return;
    }
    if (needs_held(instruction)) send_all();
    placed_.push_back(place);
  }

  std::vector<std::size_t> take() {
    send_all();
    return std::move(placed_);
  }

 private:
  struct Pack {
    std::vector<std::pair<std::size_t, const Instruction*>> reductions;
    std::int64_t bytes = 0;
  };
  using Packs = std::map<Way, Pack>;

  // Where the gradient waits with which this goes on: by its next move, or by the sum that it is added to.
  Packs::iterator pack_behind(const Instruction& instruction) {
    if (instruction.stream != Stream::communication || instruction.parameter == kNoId || !needs_held(instruction)) return packs_.end();
    const auto found = way_of_.find(instruction.parameter);
    return found != way_of_.end() ? packs_.find(found->second) : packs_.end();
  }

  void reduce(std::size_t place, const Instruction& instruction) {
    const ProgramValueId gradient = instruction.operands[0].value;
    const std::int64_t bytes = program_.local_bytes(gradient);
    if (bytes >= program_.bucket_bytes) {
      placed_.push_back(place);
      sent_one_ = true;
      return;
    }
    const Way way{instruction.move()->kind, instruction.move()->axes(), program_.type(gradient).type.dtype};
    Pack& pack = packs_[way];
    pack.bytes += bytes;
    way_of_[instruction.parameter] = way;
    hold(place, instruction, pack);
    if (pack.bytes >= (sent_one_ ? program_.bucket_bytes : std::min(kFirstBucketBytes, program_.bucket_bytes))) full_ = way;
  }

  void hold(std::size_t place, const Instruction& instruction, Pack& pack) {
    pack.reductions.emplace_back(place, &instruction);
    count(instruction, 1);
  }

  void count(const Instruction& instruction, int by) {
    for (const ProgramOperand& operand : instruction.operands) held_[owners_[operand.value]] += by;
    for (const ProgramValueId result : instruction.results) held_[owners_[result]] += by;
  }

  // Whether it reads or changes what a gradient that waits is made of. What frees it does not send it: an emitted program keeps it until then.
  [[nodiscard]] bool needs_held(const Instruction& instruction) const {
    const auto is_held = [&](ProgramValueId value) { return held_[owners_[value]] > 0; };
    if (packs_.empty() || instruction.kind() == InstructionKind::free) return false;
    return std::ranges::any_of(instruction.waits, is_held) ||
           std::ranges::any_of(instruction.operands, [&](const ProgramOperand& operand) { return instruction.stream == Stream::communication && is_held(operand.value); });
  }

  void send(Packs::iterator pack) {
    for (const auto& [place, instruction] : pack->second.reductions) {
      placed_.push_back(place);
      count(*instruction, -1);
    }
    if (full_ == pack->first) full_.reset();
    packs_.erase(pack);
    sent_one_ = true;
  }

  void send_all() {
    while (!packs_.empty()) send(packs_.begin());
  }

  const Program& program_;
  const std::vector<ProgramValueId> owners_;
  std::vector<int> held_;  // by storage: how often what waits reads or makes it
  std::vector<std::size_t> placed_;
  Packs packs_;
  std::map<std::uint32_t, Way> way_of_;  // by parameter
  std::optional<Way> full_;
  std::int64_t microbatch_ = 0;
  bool sent_one_ = false;  // in this backward
};

}  // namespace

bool reduces_gradient(const Instruction& instruction) {
  const Move* move = instruction.move();
  return instruction.stream == Stream::communication && is_backward(instruction.phase) && instruction.parameter != kNoId && move != nullptr &&
         (move->kind == MoveKind::all_reduce || move->kind == MoveKind::reduce_scatter);
}

std::vector<std::size_t> in_buckets(const Program& program, const std::vector<Occurrence>& all) {
  Filling filling(program);
  for (std::size_t i = 0; i < all.size(); ++i) filling.add(all[i], i);
  return filling.take();
}

}  // namespace meshwright
