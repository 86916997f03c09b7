// Reads a model file into a Graph, and the tensors that it holds. Stateless; one call at a time.
#pragma once

#include <map>
#include <string>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

class MESHWRIGHT_API Frontend {
 public:
  virtual ~Frontend();

  // The graph in `path`, validated. Errors: bad_input, naming the file and, where there is one, the node.
  Result<Graph> read(const std::string& path) const;

  // The parameters, buffers and constants whose bytes `path` holds, by the name of the graph's value and of its type;
  // none of a model without weights (the meta device). Tied parameters are one value. Errors: bad_input, naming the
  // file and the tensor.
  Result<std::map<std::string, Tensor>> tensors(const std::string& path) const;

 private:
  virtual Result<Graph> do_read(const std::string& path) const = 0;
  // No tensors, unless the frontend overrides it.
  virtual Result<std::map<std::string, Tensor>> do_tensors(const std::string& path) const;
};

}  // namespace meshwright
