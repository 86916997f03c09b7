#include "transfer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "box_runs.h"

namespace meshwright {

namespace {

// By member, where its bytes begin: one lot behind the other.
std::vector<int> offsets_of(const std::vector<int>& counts) {
  std::vector<int> offsets(counts.size(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

std::size_t total(const std::vector<int>& counts) { return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})); }

}  // namespace

Status TransferPlan::check_size(std::int64_t bytes) const {
  if (bytes <= std::numeric_limits<int>::max()) return Done{};
  return bad_input(std::string("a rank would transfer ") + std::to_string(bytes) + " bytes in one " + name(part_.move.kind) + ", and MPI counts to " + std::to_string(std::numeric_limits<int>::max()) +
                   "; plan with more microbatches or on more devices");
}

Result<TransferPlan> TransferPlan::make(const Program& program, const Instruction& instruction, std::int64_t rank, std::int64_t first, World& world) {
  Result<MovePart> part = move_part(program, instruction, rank);
  if (!part) return part.error();
  TransferPlan plan(std::move(*part));
  if (!meshwright::needs_others(plan.part_)) {
    if (plan.part_.move.kind != MoveKind::keep_one) plan.pieces_ = pieces_of(plan.part_);
    return plan;
  }
  const std::vector<std::int64_t>& members = plan.part_.group;
  plan.self_ = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  const Status planned = plan.part_.move.kind == MoveKind::all_reduce ? plan.plan_segments() : plan.plan_pieces();
  if (!planned) return planned.error();
  std::vector<int> processes;
  for (const std::int64_t member : members) processes.push_back(static_cast<int>(first + member));
  plan.comm_ = world.group(processes, instruction.stream);
  return plan;
}

void TransferPlan::move_here(const Tensor& source, Tensor& result) const {
  if (part_.move.kind == MoveKind::keep_one) return keep_one(part_, std::nullopt, source, result);
  for (const Piece& piece : pieces_) take(part_, piece, source.bytes().data(), result.bytes().data());
}

Status TransferPlan::plan_pieces() {
  const std::vector<std::int64_t>& members = part_.group;
  const auto number_of = [&](std::int64_t rank) { return static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin()); };
  sends_.resize(members.size());
  std::vector<std::int64_t> outgoing(members.size(), 0), incoming(members.size(), 0), held(members.size(), 0);
  bool all_of_all = true;
  for (std::size_t member = 0; member < members.size(); ++member) {
    std::vector<Piece> pieces = pieces_of(part_of(part_, members[member]));
    std::size_t whole = 0;
    for (const Piece& piece : pieces) {
      if (piece.part == piece.held) ++whole;
      held[number_of(piece.from)] = bytes_of(piece.held);
      if (piece.from == part_.rank && member != self_) {
        sends_[member].push_back(piece);
        outgoing[member] += bytes_of(piece.part);
      }
    }
    all_of_all = all_of_all && whole == members.size();
    if (member != self_) continue;
    for (const Piece& piece : pieces) {
      senders_.push_back(number_of(piece.from));
      if (piece.from != part_.rank) incoming[senders_.back()] += bytes_of(piece.part);
    }
    pieces_ = std::move(pieces);
  }
  gathers_ = all_of_all && part_.move.kind == MoveKind::all_gather;
  if (gathers_) incoming = held;
  if (Status status = check_size(std::accumulate(outgoing.begin(), outgoing.end(), std::int64_t{0})); !status) return status;
  if (Status status = check_size(std::accumulate(incoming.begin(), incoming.end(), std::int64_t{0})); !status) return status;
  send_counts_.assign(outgoing.begin(), outgoing.end());
  receive_counts_.assign(incoming.begin(), incoming.end());
  send_offsets_ = offsets_of(send_counts_);
  receive_offsets_ = offsets_of(receive_counts_);
  return Done{};
}

Status TransferPlan::plan_segments() {
  if (Status status = check_size(bytes_of(part_.target)); !status) return status;
  const std::size_t members = part_.group.size();
  const auto own = static_cast<int>(segment_of(part_, self_).count * part_.element_bytes);
  for (std::size_t member = 0; member < members; ++member) {
    const Segment segment = segment_of(part_, member);
    send_counts_.push_back(static_cast<int>(segment.count * part_.element_bytes));
    send_offsets_.push_back(static_cast<int>(segment.begin * part_.element_bytes));
    to_others_.push_back(member == self_ ? 0 : send_counts_.back());
    receive_counts_.push_back(member == self_ ? 0 : own);
  }
  receive_offsets_ = offsets_of(receive_counts_);
  return Done{};
}

Transfer::Transfer(const TransferPlan& plan, World& world, const Tensor& source, Tensor& result) : plan_(plan), world_(world), source_(source.bytes().data()), result_(result.bytes().data()) {}

bool Transfer::advance() {
  if (!begun_) {
    begun_ = true;
    if (plan_.part_.move.kind == MoveKind::all_reduce) begin_segments();
    else begin_pieces();
  }
  while (true) {
    int is_done = 0;
    world_.check(MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done == 0) return false;
    if (!then_) return true;
    std::exchange(then_, {})();
  }
}

// A piece lies in what is sent as a tensor of its own.
void Transfer::begin_pieces() {
  const std::size_t size = plan_.part_.element_bytes;
  incoming_.resize(total(plan_.receive_counts_));
  then_ = [this] { take_pieces(); };
  if (plan_.gathers_) {
    world_.check(MPI_Iallgatherv(source_, plan_.receive_counts_[plan_.self_], MPI_BYTE, incoming_.data(), plan_.receive_counts_.data(), plan_.receive_offsets_.data(), MPI_BYTE, plan_.comm_, &request_),
                 "MPI_Iallgatherv");
    return;
  }
  outgoing_.resize(total(plan_.send_counts_));
  for (std::size_t member = 0; member < plan_.sends_.size(); ++member) {
    std::byte* lot = outgoing_.data() + plan_.send_offsets_[member];
    for (const Piece& piece : plan_.sends_[member]) {
      for_each_run(piece.held, piece.part, piece.part, [&](std::size_t from, std::size_t to, std::size_t count) { std::memcpy(lot + to * size, source_ + from * size, count * size); });
      lot += plan_.bytes_of(piece.part);
    }
  }
  world_.check(MPI_Ialltoallv(outgoing_.data(), plan_.send_counts_.data(), plan_.send_offsets_.data(), MPI_BYTE, incoming_.data(), plan_.receive_counts_.data(), plan_.receive_offsets_.data(), MPI_BYTE,
                              plan_.comm_, &request_),
               "MPI_Ialltoallv");
}

void Transfer::take_pieces() {
  std::vector<int> taken = plan_.receive_offsets_;
  for (std::size_t i = 0; i < plan_.pieces_.size(); ++i) {
    const Piece& piece = plan_.pieces_[i];
    const std::size_t sender = plan_.senders_[i];
    const std::int64_t bytes = plan_.bytes_of(piece.part);
    if (sender != plan_.self_) received_ += bytes;
    if (sender == plan_.self_) {
      take(plan_.part_, piece, source_, result_);
    } else if (plan_.gathers_) {
      take(plan_.part_, piece, incoming_.data() + plan_.receive_offsets_[sender], result_);
    } else {
      take(plan_.part_, {piece.from, piece.part, piece.part, piece.adds}, incoming_.data() + taken[sender], result_);
      taken[sender] += static_cast<int>(bytes);
    }
  }
}

void Transfer::begin_segments() {
  incoming_.resize(total(plan_.receive_counts_));
  then_ = [this] { add_segments(); };
  world_.check(MPI_Ialltoallv(source_, plan_.to_others_.data(), plan_.send_offsets_.data(), MPI_BYTE, incoming_.data(), plan_.receive_counts_.data(), plan_.receive_offsets_.data(), MPI_BYTE, plan_.comm_, &request_),
               "MPI_Ialltoallv");
}

void Transfer::add_segments() {
  const std::size_t self = plan_.self_;
  const Segment own = segment_of(plan_.part_, self);
  const auto bytes = static_cast<std::size_t>(plan_.send_counts_[self]);
  std::byte* sum = result_ + plan_.send_offsets_[self];
  for (std::size_t member = 0; member < plan_.send_counts_.size(); ++member) {
    const std::byte* addend = member == self ? source_ + plan_.send_offsets_[self] : incoming_.data() + plan_.receive_offsets_[member];
    if (member == 0) std::memcpy(sum, addend, bytes);
    else plan_.part_.combine(sum, addend, own.count);
    if (member != self) received_ += static_cast<std::int64_t>(bytes) + plan_.send_counts_[member];
  }
  world_.check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, result_, plan_.send_counts_.data(), plan_.send_offsets_.data(), MPI_BYTE, plan_.comm_, &request_), "MPI_Iallgatherv");
}

}  // namespace meshwright
