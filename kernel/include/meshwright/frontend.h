// Reads a model file into a Graph. Stateless; one call at a time.
#pragma once

#include <string>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright {

class MESHWRIGHT_API Frontend {
 public:
  virtual ~Frontend();

  // The graph in `path`, validated. Errors: bad_input, naming the file and, where there is one, the node.
  Result<Graph> read(const std::string& path) const;

 private:
  virtual Result<Graph> do_read(const std::string& path) const = 0;
};

}  // namespace meshwright
