#include "python_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace meshwright::torch {

namespace {

std::vector<std::string> texts(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (const std::int64_t value : numbers) parts.push_back(std::to_string(value));
  return parts;
}

bool has_single_atoms(const AtomShape& atoms) {
  return std::all_of(atoms.atoms_of_dimension.begin(), atoms.atoms_of_dimension.end(), [](std::uint8_t count) { return count <= 1; });
}

// Where an atom is in a rank's tensor: in its shape, or in a view of it by atoms.
class Place {
 public:
  Place(const ShardedType& before, const ShardedType& after, const Mesh& mesh)
      : before_(before), after_(after), mesh_(mesh), plain_(has_single_atoms(before.atoms)) {}

  std::string dimension(std::size_t atom) const { return std::to_string(plain_ ? before_.atoms.dimension_of(atom) : atom); }

  // ", view=(2, 3, 4), shape=(2, 24)" where dimensions have several atoms.
  std::string view() const {
    if (plain_) return "";
    std::vector<std::int64_t> sizes;
    for (std::size_t atom = 0; atom < before_.atoms.sizes.size(); ++atom) sizes.push_back(local(before_, atom));
    return ", view=" + tuple(sizes) + ", shape=" + tuple(local_type(after_, mesh_).shape);
  }

  // ", size=10" where the extent of the atom after the move is not that before it times or over the axis.
  std::string gathered_size(std::size_t atom, std::size_t axis, const char* name = "size") const {
    const std::int64_t size = local(after_, atom);
    return size == local(before_, atom) * mesh_.axes[axis].size ? "" : std::string(", ") + name + "=" + std::to_string(size);
  }
  std::string cut_size(std::size_t atom, std::size_t axis, const char* name = "size") const {
    const std::int64_t size = local(after_, atom);
    return size * mesh_.axes[axis].size == local(before_, atom) ? "" : std::string(", ") + name + "=" + std::to_string(size);
  }

 private:
  std::int64_t local(const ShardedType& tensor, std::size_t atom) const { return local_atom(tensor.layout, tensor.atoms, mesh_, atom); }

  const ShardedType &before_, &after_;
  const Mesh& mesh_;
  bool plain_;
};

std::string relayout(const ShardedType& before, const ShardedType& after, const Mesh& mesh) {
  return "relayout(" + layout(before, mesh) + ", " + layout(after, mesh) + ")";
}

}  // namespace

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string all;
  for (std::size_t i = 0; i < parts.size(); ++i) all += (i > 0 ? std::string(between) : "") + parts[i];
  return all;
}

std::string tuple(const std::vector<std::string>& parts) { return "(" + join(parts) + (parts.size() == 1 ? ",)" : ")"); }
std::string tuple(const std::vector<std::int64_t>& numbers) { return tuple(texts(numbers)); }
std::string list(const std::vector<std::string>& parts) { return "[" + join(parts) + "]"; }

std::string number(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string dtype(DType type) { return "torch." + std::string(name(type)); }

std::string literal(const Attribute& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool truth) const { return truth ? "True" : "False"; }
    std::string operator()(std::int64_t integer) const { return std::to_string(integer); }
    std::string operator()(double real) const { return number(real); }
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(const std::vector<std::int64_t>& integers) const { return list(texts(integers)); }
    std::string operator()(const std::vector<double>& reals) const {
      std::vector<std::string> parts;
      for (const double real : reals) parts.push_back(number(real));
      return list(parts);
    }
  };
  return std::visit(Writer{}, value);
}

std::string layout(const ShardedType& tensor, const Mesh& mesh) {
  std::vector<std::string> axes, dimensions;
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    const Placement placement = tensor.layout[axis];
    axes.push_back(placement.is_shard() ? std::to_string(placement.atom()) : placement.is_partial() ? "\"sum\"" : "None");
  }
  std::string text = "Layout(" + tuple(tensor.type.shape) + ", " + tuple(axes);
  std::size_t atom = 0;
  for (const std::uint8_t count : tensor.atoms.atoms_of_dimension) {
    std::vector<std::int64_t> sizes(tensor.atoms.sizes.begin() + static_cast<std::ptrdiff_t>(atom),
                                    tensor.atoms.sizes.begin() + static_cast<std::ptrdiff_t>(atom + count));
    dimensions.push_back(tuple(sizes));
    atom += count;
  }
  if (!has_single_atoms(tensor.atoms)) text += ", atoms=" + tuple(dimensions);
  std::vector<std::int64_t> padded;
  for (std::size_t i = 0; i < tensor.atoms.sizes.size(); ++i) {
    const std::int64_t shards = shards_of_atom(tensor.layout, mesh, i);
    const bool rounds = shards > 1 && local_atom(tensor.layout, tensor.atoms, mesh, i) * shards != tensor.atoms.sizes[i];
    if (rounds) padded.push_back(static_cast<std::int64_t>(i));
  }
  if (!padded.empty()) text += ", padded=" + tuple(padded);
  return text + ")";
}

std::vector<std::string> moves(const ShardedType& before, const Move& move, const Mesh& mesh) {
  ShardedType after = before;
  after.layout = move.result;
  const Place place(before, after, mesh);
  const std::string axis = std::to_string(move.axis);
  const Placement from = before.layout[move.axis], to = move.result[move.axis];
  if (move.permutes_before || move.permutes_after || move.kind == MoveKind::permute) {
    if (!from.is_partial()) return {relayout(before, after, mesh)};
    ShardedType summed = before;
    summed.layout.place(move.axis, Placement::replicate());
    return {"all_reduce(" + axis + ")", relayout(summed, after, mesh)};
  }
  switch (move.kind) {
    case MoveKind::slice: return {"cut(" + axis + ", dim=" + place.dimension(to.atom()) + place.view() + place.cut_size(to.atom(), move.axis) + ")"};
    case MoveKind::all_gather:
      return {"all_gather(" + axis + ", dim=" + place.dimension(from.atom()) + place.view() + place.gathered_size(from.atom(), move.axis) + ")"};
    case MoveKind::reduce_scatter:
      return {"reduce_scatter(" + axis + ", dim=" + place.dimension(to.atom()) + place.view() + place.cut_size(to.atom(), move.axis) + ")"};
    case MoveKind::all_to_all:
      return {"all_to_all(" + axis + ", gathered=" + place.dimension(from.atom()) + ", cut=" + place.dimension(to.atom()) + place.view() +
              place.gathered_size(from.atom(), move.axis, "gathered_size") + place.cut_size(to.atom(), move.axis, "cut_size") + ")"};
    case MoveKind::all_reduce:
      return {"all_reduce(" + axis + (from == Placement::partial_max() ? ", op=\"max\")" : ")")};
    case MoveKind::keep_one: return {"keep_one(" + axis + ")"};
    case MoveKind::permute: break;
  }
  return {};
}

std::string positions(const Instruction& call, const std::string& name) {
  const auto starts = call.rank_attributes.find(name + "_starts");
  if (starts == call.rank_attributes.end()) return "";
  const auto integers = [&](const char* what) {
    const auto found = call.attributes.find(name + what);
    const auto* values = found == call.attributes.end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
    return tuple(values ? *values : std::vector<std::int64_t>{});
  };
  std::vector<std::string> steps;
  for (const auto& step : starts->second.steps) steps.push_back(tuple(step));
  return "positions(" + integers("_atoms") + ", " + integers("_extents") + ", " + tuple(starts->second.base) + ", " + tuple(steps) + ")";
}

}  // namespace meshwright::torch
