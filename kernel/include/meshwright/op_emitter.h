// Emitters write single ops as text of the programs that a backend emits (plugins of kind "emitters").
//
// An emitter is told what one rank computes of one call: the operands as the program's expressions, attributes and positions
// as they are on one rank, the types of all tensors and how they lie. It answers with an expression, and with the definitions
// (a prelude) that this expression uses. It is told nothing of the program around the call.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/shard.h"

namespace meshwright {

struct EmitterOperand {
  std::string name;  // by the op's schema; an element of a list has its number behind a dot, "tensors.0"
  std::string text;  // an expression of the program's language, to be put into the emitter's as it is
  ShardedType type;
};

// One of the steps that the op's family made of a call (OpFamily::localize).
struct EmitterStep {
  std::string op;                 // empty: a collective
  std::vector<std::size_t> axes;  // of a collective: the mesh axes whose ranks meet
  Attributes attributes;          // one rank's
  RankAttributes rank_attributes;
  std::vector<ShardedType> results;
};

struct MESHWRIGHT_API EmitterCall {
  const Mesh& mesh;
  std::string name;    // of the node, for messages
  std::string stream;  // names the call's random numbers: the same on every rank, different for each node of the model
  std::string op;
  std::vector<EmitterOperand> operands;
  std::vector<ShardedType> results;
  // Those of one rank: sizes are local, and NAME_atoms, NAME_extents and NAME_starts say which positions are here (ShardIndex).
  // If there are `steps`, those of the whole call.
  Attributes attributes;
  RankAttributes rank_attributes;
  // What one rank does in place of the op, collectives included. Empty: it computes the op itself, on local shapes.
  std::vector<EmitterStep> steps;

  [[nodiscard]] const EmitterOperand* operand(std::string_view operand_name) const;
  // The type of one rank's part.
  [[nodiscard]] TensorType local(const ShardedType& tensor) const { return local_type(tensor, mesh); }
  // A node with the call's op and attributes, to read these by type. It belongs to no graph.
  [[nodiscard]] Node node() const;
};

struct EmittedOp {
  // One expression on one line. Its value is the op's result, or the tuple of its results. Empty: the emitter leaves this call
  // to the backend, which calls the op by its schema or refuses it.
  std::string text = {};
  // Where the result is a partial sum: the expression of what all ranks have of it together, which the backend takes where nothing
  // but that sum is used. Empty: the backend adds up the values of `text`.
  std::string summed = {};
  // Where all results behind the first are left in buffers that are operands, or not used: the expression of the first, which
  // leaves them there; and which of them so, by name of the operand. The backend takes it where nothing else reads these buffers.
  std::string leaving = {};
  std::vector<std::pair<std::size_t, std::string>> left = {};
  std::size_t values = 0;  // how many values the expression has, from the op's first result on; 0: as many as the op
  bool draws = false;      // the expression draws random numbers, of the call's stream
  // Buffers of the module that owns this call's buffers change in training alone (a batch norm counts its batches).
  bool buffers_follow_mode = false;
  // Definitions in the program's language, of which the backend writes those that the program uses. They may use the backend's
  // own. Stays valid: a part of the plugin, which is never unloaded.
  std::string_view prelude = {};
};

// Stateless and thread-safe. Serves names "BACKEND:OP".
class MESHWRIGHT_API OpEmitter {
 public:
  virtual ~OpEmitter();
  // Errors: the emitter's own; plugin_failed if the text is no single line. They name the op and the node.
  Result<EmittedOp> emit(const EmitterCall& call) const;

 private:
  virtual Result<EmittedOp> do_emit(const EmitterCall& call) const = 0;
};

// Which emitters there are for a backend; null if an op has none.
class MESHWRIGHT_API EmitterTable {
 public:
  virtual ~EmitterTable();
  [[nodiscard]] virtual const OpEmitter* find(std::string_view op) const = 0;
};

}  // namespace meshwright
