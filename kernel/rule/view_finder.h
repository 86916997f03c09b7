// Which calls make views.
#pragma once

#include <map>
#include <tuple>

#include "meshwright/op.h"

namespace meshwright {

// Asks op families, once for each kind of call: layers repeat them.
class ViewFinder {
 public:
  explicit ViewFinder(const OpTable& ops) : ops_(ops) {}

  struct View {
    bool alias = false;       // the results share the storage of operand 0
    bool keeps_order = false;  // and are all of it, element by element
    bool transposes = false;   // or all of it, its last two dimensions exchanged
  };
  // None, where no family knows the op or it refuses the call.
  View view(const OpCall& call);
  bool is_view(const OpCall& call) { return view(call).alias; }

 private:
  using Types = std::vector<std::pair<DType, std::vector<std::int64_t>>>;
  using Key = std::tuple<std::string, std::map<std::string, Attribute, std::less<>>, Types, Types>;

  const OpTable& ops_;
  std::map<Key, View> known_;
};

}  // namespace meshwright
