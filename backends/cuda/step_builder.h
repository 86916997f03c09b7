// From a finished program to what one rank asks of its device in a step: launches and collectives at fixed places of
// its memory, and the events that stand for what instructions wait for. Nothing is computed here, but views
// (ViewFinder) and the results of ops that read nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "command.h"
#include "links.h"
#include "meshwright/arena.h"
#include "meshwright/backend.h"
#include "move_part.h"
#include "op_writer.h"

namespace meshwright::cuda {

// Which one of the stages a program is of.
struct StageLinks {
  const Links& links;
  std::size_t stage = 0;
  std::function<const Block*(std::int64_t seat)> block_of = {};  // of another seat of the device; null: not known yet
};

class StepBuilder {
 public:
  // `block`: where the rank's memory lies; `build` finds how large its parts have to be. `views` and the links of the
  // run outlive this. `plans`: what is left to libraries.
  StepBuilder(const BackendInput& input, const StageLinks& stage, const std::vector<Occurrence>& steps,
              const Arena& arena, std::int64_t rank, const Block& block, ViewFinder& views, LibraryPlans plans);

  // Errors: bad_input for an op that has no kernel here; each names the instruction.
  Result<RankStep> build();

 private:
  // What a call keeps (Keeper), beside a storage as it is seen so.
  struct Beside {
    Seen seen;
    std::string what;
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  class CallKeeper;
  // A buffer of the program, which values share.
  struct Storage {
    Seen seen;
    std::optional<std::size_t> used_aside = {};  // the event behind the last use on the communication stream
    std::size_t reads = 0;                       // by instructions
    std::size_t number = 0;                      // of all in the step
    std::vector<Beside> beside = {};
  };
  struct Held {
    struct View {
      std::size_t instruction = 0, result = 0;
    };
    std::shared_ptr<Storage> storage;  // null: it is not there
    std::vector<View> views;
  };

  Held& value(ProgramValueId id) { return values_[program_.place(id, microbatch_)]; }
  Result<Held*> held(ProgramValueId id, std::int64_t microbatch);
  Seen placed(ProgramValueId id) const;
  void keep(ProgramValueId id) { keep(id, placed(id)); }
  void keep(ProgramValueId id, const Seen& made);
  void count(std::int64_t bytes);
  std::byte* scratch(std::size_t bytes);
  std::byte* take_beside(std::size_t bytes);

  Result<std::optional<Seen>> see_through(const Instruction& view, const Seen& operand, std::size_t result);
  // In scratch.
  Result<Seen> copied_in_rows(const Seen& seen);
  // A value as it is seen through its views.
  Result<Seen> read(ProgramValueId id) { return read(id, microbatch_); }
  Result<Seen> read(ProgramValueId id, std::int64_t microbatch);
  Result<Seen> read_in_rows(ProgramValueId id, std::int64_t microbatch);
  [[nodiscard]] OpCall call_of(const Node& node, const Instruction& instruction) const;
  // Writes launches and products on the stream of the instruction, as `write` says.
  Status with_writer(const OpCall& call, std::vector<Seen> operands, std::vector<Seen> results,
                     const std::function<Status(OpWriter&)>& write);

  Status build_instruction(std::size_t step);
  Status compute(const Instruction& instruction);
  Status compute_constant(const Instruction& instruction, const OpCall& call);
  Status accumulate(const Instruction& instruction);
  Status update(const Instruction& instruction);
  Status take_over(const Instruction& instruction);
  Status drop(const Instruction& instruction);
  [[nodiscard]] std::optional<std::size_t> maker_before(std::size_t step, const std::byte* made) const;
  void join_with_earlier(Launch& chain);
  Status fuse_into_product(std::size_t step, const std::byte* unread);
  Status fuse_kept_activations();
  Status hand_out(ProgramValueId id, std::int64_t microbatch, RankStep& made);
  Status close(RankStep& made);

  Status move(const Instruction& instruction);
  Status all_reduce(const MovePart& part, const Seen& source, const Seen& result);
  Status gather(const MovePart& part, const std::vector<Piece>& pieces, const Seen& source, const Seen& result);
  Status reduce_scatter(const MovePart& part, const Seen& source, const Seen& result);
  Status exchange(const MovePart& part, const std::vector<Piece>& pieces, const Seen& source, const Seen& result);
  // Of two buffers that hold boxes of one tensor: what `box` is of the first goes to the second, or is combined with
  // what is there.
  Status copy_box(const MovePart& part, const Box& box, const Box& held, std::byte* from, const Box& target,
                  std::byte* to, bool adds = false);
  // The same of any two boxes; `function`: what combines, null: a copy.
  Status copy_box(DType dtype, const Box& box, const Box& held, std::byte* from, const Box& target, std::byte* to,
                  std::optional<Function> function = {});
  [[nodiscard]] GroupKey group_of(const MovePart& part) const;

  // To another stage, and from there (links.h).
  struct Packing {
    std::vector<std::size_t> places;  // in the slot, by who gets it; whoever gets the same has the same one
    std::vector<std::pair<const Delivery*, std::size_t>> packed;
    std::size_t bytes = 0;
  };
  static Packing packing_of(const std::vector<Delivery>& given, std::size_t element_bytes);
  Status send(const Instruction& instruction);
  Status receive(const Instruction& instruction);
  Status receive_by_link(const Message& message, std::vector<Exchange::Part> sends, const std::vector<Delivery>& gotten,
                         const Seen& result);
  Status take_from_slot(const Message& message, const std::vector<Delivery>& gotten, const Seen& result);
  [[nodiscard]] std::int64_t seat() const { return stage_.links.seat(stage_.stage, rank_); }
  // What goes over, between where it lies and where all of it lies one after the other.
  Status pack(const Delivery& delivery, const Seen& source, std::byte* to);
  Status unpack(const Delivery& delivery, std::byte* from, const Seen& result);
  Status copy_elements(DType dtype, std::byte* from, std::byte* to, std::int64_t count);
  // A command of a link: it begins when all that stands before it on this stream is done.
  void add_on_link(StreamNumber link, Command::What what);
  // In a slot, whose bytes may be unknown.
  std::byte* slot(std::size_t number, std::size_t bytes);
  void fill_unless_covered(const MovePart& part, const std::vector<Piece>& pieces, const Seen& result);

  void add(Command::What what) { add_on(stream_, std::move(what)); }
  void add_on(StreamNumber stream, Command::What what);
  // Before an instruction of the communication stream, and behind it.
  void begin_aside();
  void end_aside(const Instruction& instruction);
  void wait_for(const Instruction& instruction);

  const BackendInput& input_;
  const StageLinks stage_;
  const Program& program_;
  const std::vector<Occurrence>& steps_;
  const Arena& arena_;
  const std::int64_t rank_;
  const std::vector<std::int64_t> coordinates_;
  const Block block_;
  ViewFinder& views_;
  const LibraryPlans plans_;
  std::vector<Held> values_;
  std::vector<Command>* commands_ = nullptr;
  std::vector<Command>* chain_ =
      nullptr;  // whose last command is a chain, and the last of all; null: that is another one
  StreamNumber stream_ = kCompute;
  std::size_t step_ = 0;
  std::int64_t microbatch_ = 0;
  bool computes_since_ =
      true;  // something is on the compute stream that the communication stream does not wait for yet
  std::optional<std::size_t>
      waited_for_;  // the last event of the communication stream that the compute stream waits for
  std::size_t scratch_used_ = 0, scratch_most_[2] = {0, 0};
  std::map<std::size_t, std::vector<std::byte*>> free_beside_;  // by size
  std::vector<std::size_t> scratch_behind_;                     // by step: how much scratch its instruction uses
  std::int64_t held_bytes_ = 0;
  std::size_t storages_ = 0;
  std::vector<std::size_t> slot_bytes_;
  std::map<std::size_t, std::size_t> sent_;  // by slot: the event behind what was sent from there last
  RankStep made_;
};

// Whose communicators the commands use.
void collect_groups(const RankStep& step, std::set<GroupKey>& groups);

}  // namespace meshwright::cuda
