// Reads a model file into a Graph, and the tensors that it holds. Stateless; one call at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

// Sizes for the dimensions that a model file leaves open (symbolic ones). Empty: none is known.
struct OpenDimensions {
  std::optional<std::int64_t> batch;          // of the open dimension that leads the model's inputs, whatever its name
  std::map<std::string, std::int64_t> named;  // by the name that the file gives it; takes precedence over `batch`
};

class MESHWRIGHT_API Frontend {
 public:
  virtual ~Frontend();

  // The graph in `path`, validated. Dimensions that the file leaves open have the sizes that `open` gives them; all others
  // stay as they are. Errors: bad_input, naming the file and, where there is one, the node or the open dimension without a size.
  Result<Graph> read(const std::string& path, const OpenDimensions& open = {}) const;

  // The parameters, buffers and constants whose bytes `path` holds, by the name of the graph's value and of its type;
  // none of a model without weights (the meta device). Tied parameters are one value. Errors: bad_input, naming the
  // file and the tensor.
  Result<std::map<std::string, Tensor>> tensors(const std::string& path) const;

 private:
  virtual Result<Graph> do_read(const std::string& path, const OpenDimensions& open) const = 0;
  // No tensors, unless the frontend overrides it.
  virtual Result<std::map<std::string, Tensor>> do_tensors(const std::string& path) const;
};

}  // namespace meshwright
