#include "lockstep_backend.h"

#include <algorithm>
#include <cmath>

namespace meshwright::test {

namespace {

using Coordinates = std::vector<std::int64_t>;

class Run {
 public:
  explicit Run(const BackendInput& input)
      : input_(input), program_(input.program), ranks_(program_.mesh.devices()),
        values_(program_.values.size(), std::vector<Tensor>(static_cast<std::size_t>(ranks_))) {}

  Result<Report> run() {
    for (const ProgramParameter& parameter : program_.parameters) cut(parameter.value, *input_.source(parameter.source));
    for (const ProgramInput& in : program_.inputs) cut(in.value, *input_.source(in.source));
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      if (Status status = step(program_.instructions[i]); !status) {
        return add_context("instruction " + std::to_string(i), status.error());
      }
    }
    for (std::uint32_t i = 0; i < program_.outputs.size(); ++i) {
      for (std::int64_t rank = 0; rank < ranks_; ++rank) input_.observer->on_output(rank, i, at(program_.outputs[i].value, rank));
    }
    Report report;
    report.ranks = ranks_;
    return report;
  }

 private:
  Tensor& at(ProgramValueId value, std::int64_t rank) { return values_[value][static_cast<std::size_t>(rank)]; }

  // Calls visit(local element, index in each atom) for all that a rank holds of a value; padding included.
  template <class Visit>
  void for_each_element(const ShardedType& type, std::int64_t rank, Visit visit) const {
    const Box box = box_of(type.layout, type.atoms, program_.mesh, coordinates_of(program_.mesh, rank));
    std::vector<std::int64_t> index(box.start.size());
    for (std::int64_t local = 0; local < box.elements(); ++local) {
      std::int64_t rest = local;
      for (std::size_t atom = index.size(); atom-- > 0;) {
        index[atom] = box.start[atom] + rest % box.extent[atom];
        rest /= box.extent[atom];
      }
      visit(local, index);
    }
  }

  void cut(ProgramValueId value, const Tensor& whole) {
    const ShardedType& type = program_.type(value);
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      Tensor part(program_.local(value));
      for_each_element(type, rank, [&](std::int64_t local, const std::vector<std::int64_t>& index) {
        std::int64_t place = 0;
        for (std::size_t atom = 0; atom < index.size(); ++atom) {
          if (index[atom] >= type.atoms.sizes[atom]) return;
          place = place * type.atoms.sizes[atom] + index[atom];
        }
        part.set(local, whole.get(place));
      });
      at(value, rank) = std::move(part);
    }
  }

  Status step(const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::compute:
        for (std::int64_t rank = 0; rank < ranks_; ++rank) {
          if (Status status = compute_on(instruction, rank); !status) return add_context("rank " + std::to_string(rank), status.error());
        }
        return Done{};
      case InstructionKind::move: move(instruction); return Done{};
      case InstructionKind::free:
        for (const ProgramOperand& operand : instruction.operands) {
          for (std::int64_t rank = 0; rank < ranks_; ++rank) at(operand.value, rank) = Tensor();
        }
        return Done{};
      case InstructionKind::update: update(instruction); return Done{};
      default: return bad_input("the program is not finished");
    }
  }

  Status compute_on(const Instruction& instruction, std::int64_t rank) {
    Node node;
    node.op = instruction.op;
    node.name = instruction.name;
    node.attributes = instruction.attributes;
    for (const auto& [key, integers] : instruction.rank_attributes) node.attributes[key] = integers.at(coordinates_of(program_.mesh, rank));
    OpCall call{node, {}, {}};
    std::vector<const Tensor*> operands;
    for (const ProgramOperand& operand : instruction.operands) {
      node.operands.push_back({operand.name, operand.value});
      operands.push_back(&at(operand.value, rank));
      call.operands.push_back(program_.local(operand.value));
    }
    for (const ProgramValueId result : instruction.results) {
      node.results.push_back(result);
      call.results.push_back(program_.local(result));
    }
    Result<std::vector<Tensor>> results = compute(call, operands, input_.ops, input_.kernels);
    if (!results) return results.error();
    for (std::size_t i = 0; i < instruction.results.size(); ++i) at(instruction.results[i], rank) = std::move((*results)[i]);
    return Done{};
  }

  void move(const Instruction& instruction) {
    const ProgramValueId from = instruction.operands[0].value, to = instruction.results[0];
    const ShardedType &source = program_.type(from), &target = program_.type(to);
    const std::size_t axis = instruction.move.axis;
    const bool keeps = instruction.move.kind == MoveKind::keep_one;
    const bool reduces = instruction.move.kind == MoveKind::all_reduce || instruction.move.kind == MoveKind::reduce_scatter;
    const bool maximum = source.layout[axis] == Placement::partial_max();
    extents_.clear();
    for (std::size_t atom = 0; atom < source.atoms.sizes.size(); ++atom) {
      extents_.push_back(local_atom(source.layout, source.atoms, program_.mesh, atom));
    }
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const Coordinates here = coordinates_of(program_.mesh, rank);
      Tensor moved(program_.local(to));
      for_each_element(target, rank, [&](std::int64_t local, const std::vector<std::int64_t>& index) {
        if (keeps && here[axis] != 0) return;
        double value = maximum ? -std::numeric_limits<double>::infinity() : 0;
        for (std::int64_t addend = 0; addend < (reduces ? program_.mesh.axes[axis].size : 1); ++addend) {
          Coordinates there = here;
          if (reduces) there[axis] = addend;
          const std::int64_t place = locate(source, index, there);
          if (place < 0) return;  // padding that nobody holds
          const double found = at(from, rank_at(program_.mesh, there)).get(place);
          value = maximum ? std::max(value, found) : value + found;
        }
        moved.set(local, value);
      });
      pending_.push_back(std::move(moved));
    }
    for (std::int64_t rank = 0; rank < ranks_; ++rank) at(to, rank) = std::move(pending_[static_cast<std::size_t>(rank)]);
    pending_.clear();
  }

  // Who holds an element, and where: `there` is moved along the axes that cut the tensor.
  std::int64_t locate(const ShardedType& source, const std::vector<std::int64_t>& index, Coordinates& there) const {
    std::int64_t place = 0;
    for (std::size_t atom = 0; atom < index.size(); ++atom) {
      const std::int64_t extent = extents_[atom];
      std::int64_t block = index[atom] / extent;
      for (std::size_t axis = program_.mesh.rank(); axis-- > 0;) {
        if (source.layout[axis] != Placement::shard(atom)) continue;
        there[axis] = block % program_.mesh.axes[axis].size;
        block /= program_.mesh.axes[axis].size;
      }
      if (block > 0) return -1;
      place = place * extent + index[atom] % extent;
    }
    return place;
  }

  void update(const Instruction& instruction) {
    const ProgramParameter& parameter = program_.parameters[instruction.parameter];
    const OptimizerSettings& settings = input_.optimizer;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      Tensor& value = at(parameter.value, rank);
      const Tensor& gradient = at(parameter.gradient, rank);
      for (std::int64_t i = 0; i < value.elements(); ++i) {
        const double slope = gradient.get(i);
        const double step = program_.training.optimizer == Optimizer::adamw
                                ? settings.weight_decay * value.get(i) + slope / (std::abs(slope) + settings.epsilon)
                                : slope;
        value.set(i, value.get(i) - settings.learning_rate * step);
      }
      input_.observer->on_update(rank, instruction.parameter, gradient, value);
    }
  }

  const BackendInput& input_;
  const Program& program_;
  const std::int64_t ranks_;
  std::vector<std::vector<Tensor>> values_;  // by value and rank
  std::vector<Tensor> pending_;
  std::vector<std::int64_t> extents_;  // of the source of the move at hand, by atom
};

}  // namespace

Result<Report> LockstepBackend::do_run(const BackendInput& input) const { return Run(input).run(); }

}  // namespace meshwright::test
