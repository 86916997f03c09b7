// What the file alone says, whatever the sizes of its open dimensions: tensors that it holds, and what can be computed
// from them. Reading the graph and reading the tensors both start here, so that they agree about names and shapes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "literal.h"
#include "model.h"
#include "stored_bytes.h"

namespace meshwright::onnx {

struct Constants {
  std::map<std::string, StoredTensor> stored;  // initializers and tensors of Constant nodes, by value
  std::map<std::string, Literal> literals;     // what is small or computed; of reals only what no exporter trains
  std::map<std::string, Literal> short_reals;  // reals that may be trained, where an op needs them as settings
  std::set<std::string> of_nodes;              // those of `stored` that Constant nodes hold
  std::set<std::string> turned;                // weights that the graph has the other way round, [k, n] as [n, k]
  std::map<std::string, std::string> twins;    // a weight that is the transpose of another -> the other
};

Result<Constants> find_constants(const Model& model, const StoredBytes& bytes);

// Everything in `constants` whose bytes can be had, under the names and with the types that the graph gives them.
Result<std::map<std::string, Tensor>> constant_tensors(const Constants& constants, const StoredBytes& bytes);

// A name that an exporter made up: "val_12", "onnx::MatMul_370". Parameters have names of their own.
bool is_made_up(const std::string& name);

}  // namespace meshwright::onnx
