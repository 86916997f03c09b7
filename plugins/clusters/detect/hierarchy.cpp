#include "hierarchy.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "closely_knit.h"
#include "partners.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostPaired = 8;  // groups that are tried two by two

class Builder {
 public:
  explicit Builder(const LinkMatrix& links) : links_(links), thresholds_(find_thresholds(links)) {
    for (std::size_t device = 0; device < links.devices; ++device) blocks_.push_back({device});
  }

  Result<Hierarchy> build() {
    for (at_ = 0; at_ < thresholds_.size();) {
      Result<bool> joined = blocks_.size() == 1 ? Result<bool>(false) : join();
      if (!joined) return joined.error();
      if (!*joined) ++at_;
    }
    return Hierarchy{blocks_[0], levels_};
  }

 private:
  [[nodiscard]] bool fast(std::size_t a, std::size_t b) const { return links_.bandwidth(a, b) > thresholds_[at_]; }

  [[nodiscard]] BlockLinks links_between(std::size_t a, std::size_t b) const {
    return block_links(blocks_[a], blocks_[b], [&](std::size_t i, std::size_t j) { return fast(i, j); });
  }

  [[nodiscard]] Relation relation() const {
    Relation related(blocks_.size());
    for (std::size_t a = 0; a < blocks_.size(); ++a) {
      for (std::size_t b = a + 1; b < blocks_.size(); ++b) related.set(a, b, links_between(a, b) != BlockLinks::few);
    }
    return related;
  }

  // Joins blocks by links that are faster than the threshold; false: there is nothing to join.
  Result<bool> join() {
    const Relation related = relation();
    Partition groups = closely_knit_groups(related, false);
    if (!are_equal(groups)) {
      const Partition strict = closely_knit_groups(related, true);
      if (are_equal(strict)) groups = strict;
    }
    if (!are_equal(groups)) {
      const std::size_t size = usual_size(groups);
      if (size == 1) return false;  // a few pairs that are faster than others
      if (size != 2 || blocks_[0].size() != 1 || !pair_left_over(groups)) return unequal(groups);
    }
    if (groups[0].size() == 1) return false;
    const bool aligned = have_partners(groups);
    if (!aligned && pair_up(groups)) return true;
    std::vector<Block> joined;
    for (const auto& group : groups) {
      std::vector<Block> members;
      for (const std::size_t block : group) members.push_back(blocks_[block]);
      joined.push_back(concatenated(members));
    }
    if (aligned) {
      std::optional<std::vector<Block>> by_partners = align(groups);
      if (by_partners) joined = std::move(*by_partners);
      take(std::move(joined), by_partners.has_value());
    } else {
      take(std::move(joined), false);
    }
    return true;
  }

  void take(std::vector<Block> joined, bool aligned) {
    levels_.push_back({joined[0].size(), aligned});
    blocks_ = std::move(joined);
    std::ranges::sort(blocks_, {}, [](const Block& block) { return *std::ranges::min_element(block); });
  }

  // Whether most links between groups' blocks are between partners alone.
  [[nodiscard]] bool have_partners(const Partition& groups) const {
    std::size_t partners = 0, all = 0;
    for (const auto& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        for (std::size_t j = i + 1; j < group.size(); ++j) {
          const BlockLinks between = links_between(group[i], group[j]);
          partners += between == BlockLinks::partners ? 1 : 0;
          all += between == BlockLinks::few ? 0 : 1;
        }
      }
    }
    return 2 * partners > all;
  }

  [[nodiscard]] std::optional<std::vector<Block>> align(const Partition& groups) const {
    std::vector<Block> joined;
    for (const auto& group : groups) {
      std::vector<Block> members;
      for (const std::size_t block : group) members.push_back(blocks_[block]);
      std::optional<std::vector<Block>> aligned = aligned_blocks(links_, thresholds_[at_], members);
      if (!aligned) return std::nullopt;
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (!keeps_levels(members[i], (*aligned)[i])) return std::nullopt;
      }
      joined.push_back(concatenated(*aligned));
    }
    return joined;
  }

  // Whether a block's devices may be ordered so: the groups of all inner levels stay contiguous, and partners at one place.
  [[nodiscard]] bool keeps_levels(const Block& before, const Block& after) const {
    std::map<std::size_t, std::size_t> place;
    for (std::size_t i = 0; i < before.size(); ++i) place[before[i]] = i;
    std::size_t inner = 1;
    for (const GroupLevel& level : levels_) {
      for (std::size_t i = 0; i < after.size(); ++i) {
        const std::size_t first = i - i % level.group;
        if (place[after[i]] / level.group != place[after[first]] / level.group) return false;
        const std::size_t same_place = first + i % inner;
        if (level.aligned && place[after[i]] % inner != place[after[same_place]] % inner) return false;
      }
      inner = level.group;
    }
    return true;
  }

  // A device by itself among pairs has a partner that it is linked to worse than others are: at most a third of the pairs may be such.
  bool pair_left_over(Partition& groups) const {
    std::vector<std::size_t> left;
    for (const auto& group : groups) {
      if (group.size() > 2) return false;
      if (group.size() == 1) left.push_back(group[0]);
    }
    if (left.size() % 2 != 0 || 3 * left.size() > blocks_.size()) return false;
    std::erase_if(groups, [](const auto& group) { return group.size() == 1; });
    while (!left.empty()) {
      std::pair<std::size_t, std::size_t> best = {0, 1};
      const auto speed = [&](std::size_t i, std::size_t j) { return links_.bandwidth(blocks_[left[i]][0], blocks_[left[j]][0]); };
      for (std::size_t i = 0; i < left.size(); ++i) {
        for (std::size_t j = i + 1; j < left.size(); ++j) {
          if (speed(i, j) > speed(best.first, best.second)) best = {i, j};
        }
      }
      groups.push_back({left[best.first], left[best.second]});
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best.second));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best.first));
    }
    std::ranges::sort(groups);
    return true;
  }

  // Makes pairs of the blocks of all groups that faster links join two by two, and goes back to those links; false: there are none.
  bool pair_up(const Partition& groups) {
    const std::size_t size = groups[0].size(), now = at_;
    if (size < 4 || size > kMostPaired || size % 2 != 0) return false;
    for (at_ = 0; at_ < now; ++at_) {
      std::vector<std::vector<Block>> pairs(groups.size());
      for (std::size_t i = 0; i < groups.size(); ++i) match(groups[i], pairs[i]);
      if (!pair_up_by_partners(groups, thresholds_[now], pairs)) continue;
      std::vector<Block> all;
      for (const auto& each : pairs) all.insert(all.end(), each.begin(), each.end());
      take(std::move(all), false);
      return true;
    }
    return false;
  }

  // A group without pairs, of which one link is slow, has those of its partners in another group. At most a third of all pairs may be
  // joined by such a link. `threshold`: partners' links are faster.
  bool pair_up_by_partners(const Partition& groups, double threshold, std::vector<std::vector<Block>>& pairs) const {
    const auto example = std::ranges::find_if(pairs, [](const auto& each) { return !each.empty(); });
    if (example == pairs.end()) return false;
    const Block model = concatenated(*example);
    std::size_t slow = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!pairs[i].empty()) continue;
      if (blocks_[0].size() != 1) return false;
      Block devices;
      for (const std::size_t block : groups[i]) devices.push_back(blocks_[block][0]);
      const auto aligned = aligned_blocks(links_, threshold, {model, devices});
      if (!aligned) return false;
      std::size_t slow_here = 0;
      for (std::size_t j = 0; j < model.size(); j += 2) {
        Block pair = {(*aligned)[1][j], (*aligned)[1][j + 1]};
        slow_here += fast(pair[0], pair[1]) ? 0 : 1;
        pairs[i].push_back(std::move(pair));
      }
      if (slow_here > 1) return false;
      slow += slow_here;
    }
    return 6 * slow <= groups.size() * groups[0].size();
  }

  // Adds the first way, by the blocks' indices, to join those that are left two by two.
  bool match(const std::vector<std::size_t>& left, std::vector<Block>& pairs) const {
    if (left.empty()) return true;
    for (std::size_t i = 1; i < left.size(); ++i) {
      if (links_between(left[0], left[i]) != BlockLinks::all) continue;
      std::vector<std::size_t> others;
      for (std::size_t j = 1; j < left.size(); ++j) {
        if (j != i) others.push_back(left[j]);
      }
      const std::size_t before = pairs.size();
      pairs.push_back(concatenated({blocks_[left[0]], blocks_[left[i]]}));
      if (match(others, pairs)) return true;
      pairs.resize(before);
    }
    return false;
  }

  [[nodiscard]] Error unequal(const Partition& groups) const {
    constexpr std::size_t kMostListed = 8;
    std::ostringstream text;
    text << "links of " << thresholds_[at_] << " bytes per second and more join devices in groups of unequal size, and a mesh has equal ones: ";
    for (std::size_t i = 0; i < std::min(groups.size(), kMostListed); ++i) {
      text << (i == 0 ? "{" : ", {");
      bool first = true;
      for (const std::size_t block : groups[i]) {
        for (const std::size_t device : blocks_[block]) text << (first ? "" : " ") << device, first = false;
      }
      text << "}";
    }
    if (groups.size() > kMostListed) text << " and " << groups.size() - kMostListed << " more";
    text << "; leave out of the measurement what is too many";
    return bad_input(text.str());
  }

  const LinkMatrix& links_;
  const std::vector<double> thresholds_;
  std::size_t at_ = 0;  // the threshold by which blocks are joined
  std::vector<Block> blocks_;
  std::vector<GroupLevel> levels_;
};

}  // namespace

std::vector<double> find_thresholds(const LinkMatrix& links) {
  std::vector<double> values;
  for (std::size_t a = 0; a < links.devices; ++a) {
    for (std::size_t b = a + 1; b < links.devices; ++b) values.push_back(links.bandwidth(a, b));
  }
  std::ranges::sort(values);
  const std::size_t bridges = std::max<std::size_t>(1, values.size() / 100);
  std::set<double> thresholds;
  for (std::size_t i = 0, cut_until = 0; i + 1 < values.size(); ++i) {
    // The shortest run of values from here on whose ends are apart; it is cut where it is widest.
    std::size_t end = i + 1;
    while (end < values.size() && end <= i + 1 + bridges && values[end] < kApart * values[i]) ++end;
    if (end == values.size() || end > i + 1 + bridges || i < cut_until) continue;
    std::size_t widest = i;
    for (std::size_t j = i; j < end; ++j) {
      if (values[j + 1] * values[widest] > values[widest + 1] * values[j]) widest = j;
    }
    thresholds.insert(std::sqrt(values[widest]) * std::sqrt(values[widest + 1]));
    cut_until = widest + 1;
  }
  thresholds.insert(0);
  return {thresholds.rbegin(), thresholds.rend()};
}

Result<Hierarchy> find_hierarchy(const LinkMatrix& links) { return Builder(links).build(); }

}  // namespace meshwright
