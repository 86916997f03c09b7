#include "plugins/op_claims.h"

#include <algorithm>
#include <set>

#include "nearest_name.h"

namespace meshwright::host {

Result<std::map<std::string, std::string>> settle_claims(const std::vector<FamilyClaims>& families,
                                                         const std::map<std::string, std::string>& settled) {
  std::vector<std::string> ids;
  std::map<std::string, std::set<std::string>> claimants;
  for (const FamilyClaims& family : families) {
    ids.push_back(family.id);
    for (const std::string& op : family.ops) claimants[op].insert(family.id);
  }
  std::map<std::string, std::string> family_of;
  for (const auto& [op, id] : settled) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      return bad_input("[ops] gives \"" + op + "\" to the op family \"" + id + "\", which does not exist" +
                       suggest(id, ids));
    }
    const auto claim = claimants.find(op);
    if (claim == claimants.end() || !claim->second.contains(id)) {
      return bad_input("[ops] gives \"" + op + "\" to the op family \"" + id + "\", which does not serve it");
    }
    family_of[op] = id;
  }
  for (const auto& [op, who] : claimants) {
    if (family_of.contains(op)) continue;
    if (who.size() > 1) {
      const std::string& first = *who.begin();
      const std::string& second = *std::next(who.begin());
      return bad_input("the op families \"" + first + "\" and \"" + second + "\" both serve \"" + op +
                       "\"; choose one in the configuration: [ops] \"" + op + "\" = \"" + first + "\"");
    }
    family_of[op] = *who.begin();
  }
  return family_of;
}

}  // namespace meshwright::host
