// Which op family serves which op. Families say in their descriptors what they serve; two that claim one op are an
// error that names both, unless the configuration settles it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwright/result.h"

namespace meshwright::host {

struct FamilyClaims {
  std::string id;
  std::vector<std::string> ops;
};

// Op name -> id of its family. `settled` is the [ops] table. Errors: bad_input if two families claim an op that
// `settled` does not decide, or if `settled` names an unknown family or one that does not serve the op.
Result<std::map<std::string, std::string>> settle_claims(const std::vector<FamilyClaims>& families,
                                                         const std::map<std::string, std::string>& settled);

}  // namespace meshwright::host
