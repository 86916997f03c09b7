// From one layout of a tensor to another: the moves that exist, and the interface of the plugins (kind "conversions")
// that string them together. A value and its gradient are converted and priced each on its own (DESIGN §2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/layout.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

enum class MoveKind : std::uint8_t {
  slice,           // R → S: each device keeps its part
  all_gather,      // S → R
  all_to_all,      // S on one atom → S on another
  all_reduce,      // P → R
  reduce_scatter,  // P → S
  permute,         // S over one axis → S over another of the same size, or two axes change places
  keep_one,        // R → P: the first device keeps the value, the others hold zero; free
};

MESHWRIGHT_API const char* name(MoveKind kind);

// One move along `axis`, or, of what gathers and reduces, one collective over the product of several axes (decision 032). Where the axis is not the innermost of its atom, before or after, the move includes the
// permutation that makes it so, and its price as well ("gathering an axis that is not innermost costs what it takes").
struct Move {
  MoveKind kind = MoveKind::slice;
  std::uint8_t axis = 0;
  std::uint8_t other_axis = 0;   // for permute
  bool permutes_before = false;
  bool permutes_after = false;
  Layout result;                 // that the tensor has after the move
  AxisSet joined = 0;            // the axes of the product besides `axis`, which is the first of them

  [[nodiscard]] AxisSet axes() const { return joined | AxisSet{1} << axis; }
  [[nodiscard]] bool goes_over(std::size_t each) const { return (axes() >> each & 1U) != 0; }
  bool operator==(const Move&) const = default;
};

// All axes along which a move goes: "axis 1", "axes 0 and 2"; and in short, "1", "0+2".
MESHWRIGHT_API std::string axes_text(const Move& move);
MESHWRIGHT_API std::string short_axes_text(const Move& move);

// What is one over several axes, over one axis after the other.
MESHWRIGHT_API std::vector<Move> in_turn(const Layout& from, const Move& move);

// A tensor to convert. The references outlive the problem.
struct ConversionProblem {
  const Mesh& mesh;
  const AtomShape& shape;
  const CostProfile& profile;
  std::int64_t element_bytes = 4;
  // A parameter's communication is packed into buckets (CostProfile::bucket_bytes): it pays its share of a bucket's latency.
  bool packed = false;
};

// Every layout that one move reaches from `from` and that fits the shape: first over single axes, then over products.
MESHWRIGHT_API std::vector<Move> one_step_moves(const ConversionProblem& problem, const Layout& from);

// The move of `one_step_moves` with the kind, the axes and the result of `like`; nothing if there is none.
MESHWRIGHT_API std::optional<Move> find_move(const ConversionProblem& problem, const Layout& from, const Move& like);

// Moves that follow each other and can be one over the product of their axes, as that one, where it costs no more.
MESHWRIGHT_API std::vector<Move> joined(const ConversionProblem& problem, const Layout& from, const std::vector<Move>& moves);

// Over a product of axes: as over one axis that is what the cluster gives to it. Where all of them are alike it costs no more than they do
// one after the other.
MESHWRIGHT_API double move_seconds(const ConversionProblem& problem, const Layout& from, const Move& move);

struct MovePrice {
  Ticks ticks = 0;       // move_seconds', and one: of two ways that cost the same, the one of fewer moves
  Ticks host_ticks = 0;  // the host's, to issue it: of what is packed its share of the bucket's collective; nothing for what is no work
};

MESHWRIGHT_API MovePrice move_price(const ConversionProblem& problem, const Layout& from, const Move& move);

struct ConversionPath {
  std::vector<Move> moves;
  Ticks ticks = 0;  // the sum of the moves' ticks
};

struct PathPrice {
  Ticks ticks = kForbidden;  // kForbidden where there is no path
  Ticks host_ticks = 0;      // the sum of the moves' host_ticks
};

class MESHWRIGHT_API ConversionSearch {
 public:
  virtual ~ConversionSearch();

  // A path from `from` to `to`, both of which fit the shape; to a partial layout only over axes that are partial or
  // replicated in `from`. The wrapper checks that the path ends at `to` and that `ticks` is the sum of its steps.
  Result<ConversionPath> find(const ConversionProblem& problem, const Layout& from, const Layout& to) const;

  // The prices of `find` for every pair, row by row: from `layouts[i]` to `layouts[j]` at [i * layouts.size() + j]. An implementation
  // may share work between the pairs.
  Result<std::vector<PathPrice>> price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const;

 private:
  virtual Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from,
                                         const Layout& to) const = 0;
  virtual Result<std::vector<PathPrice>> do_price_all(const ConversionProblem& problem, std::span<const Layout> layouts) const;
};

// Remembers the paths that `search` found on one mesh with one profile, since layers convert alike. `search` must outlive it.
class MESHWRIGHT_API ConversionPaths {
 public:
  explicit ConversionPaths(const ConversionSearch& search) : search_(search) {}

  // `ConversionSearch::find`; no moves if the layouts are the same. The pointer stays valid.
  Result<const ConversionPath*> find(const ConversionProblem& problem, const Layout& from, const Layout& to);

 private:
  using Key = std::tuple<std::vector<std::int64_t>, std::vector<bool>, std::int64_t, bool, Layout, Layout>;

  const ConversionSearch& search_;
  std::map<Key, ConversionPath> paths_;
};

}  // namespace meshwright
