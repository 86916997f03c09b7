#include "stage_balance.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "cut_model.h"
#include "cut_places.h"
#include "meshwright/ticks.h"
#include "nearest_name.h"
#include "serial_plan.h"

namespace meshwright {

namespace {

constexpr std::string_view kStage = "stage ";
constexpr Ticks kNever = std::numeric_limits<Ticks>::max();
constexpr Ticks kSlack = 20;  // The longest stage may take a part of so many more than it must, where less crosses then.

// "stage 1" → 1
std::optional<std::uint32_t> stage_number(const std::string& text) {
  if (!text.starts_with(kStage)) return std::nullopt;
  std::uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data() + kStage.size(), end, number);
  return problem == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

class Balancer {
 public:
  Balancer(const PlanningContext& context, const BalanceWish& wish) : context_(context), graph_(context.graph()), wish_(wish), depends_(depends_on_parameters(graph_)) {}

  Result<Balance> run() {
    if (Status status = read_pins(); !status) return status.error();
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) costs_.push_back(to_ticks(wish_.weights[id] * wish_.seconds[id]));
    find_places();
    find_pins();
    return cut();
  }

 private:
  // Before a node of the graph; what crosses there goes once forward, and its gradient once back.
  struct Place {
    NodeId node = 0;
    Ticks before = 0;    // what all nodes before it take on one device
    Ticks crossing = 0;  // what is sent takes
  };

  [[nodiscard]] bool is_bound(NodeId id) const { return depends_[graph_.nodes[id].results.front()]; }

  Status read_pins() {
    pinned_.assign(graph_.nodes.size(), kNoId);
    for (const Pin& pin : wish_.pins) {
      if (!is_of_stage(pin)) continue;
      const std::uint32_t stage = stage_number(pin.text).value();
      if (stage >= wish_.stages) return bad_input(pin.where + ": there is no stage " + std::to_string(stage) + ", but " + std::to_string(wish_.stages) + ", numbered from 0");
      if (Status status = pin_module(pin, stage); !status) return status;
    }
    return Done{};
  }

  Status pin_module(const Pin& pin, std::uint32_t stage) {
    bool any = false;
    std::vector<std::string> modules;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      modules.push_back(node.module_path);
      if (node.name != pin.name && node.module_path != pin.name && !node.module_path.starts_with(pin.name + ".")) continue;
      any = true;
      if (!is_bound(id)) continue;
      if (pinned_[id] != kNoId && pinned_[id] != stage) return bad_input(pin.where + ": '" + node.name + "' of '" + node.module_path + "' is pinned to stage " + std::to_string(pinned_[id]) + " too");
      pinned_[id] = stage;
    }
    if (any) return Done{};
    const std::string nearest = nearest_name(pin.name, modules);
    return bad_input(pin.where + ": the model has no module or node '" + pin.name + "'" + (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
  }

  // Those between which something takes time.
  void find_places() {
    const std::vector<CutPlace> all = cut_places(context_.model, depends_);
    auto place = all.begin();
    Ticks before = 0;
    places_.push_back({0, 0, 0});
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const bool is_here = place != all.end() && place->node == id;
      if (is_here && before > places_.back().before) places_.push_back({id, before, to_ticks(2 * wish_.seconds_per_byte * static_cast<double>(place->bytes))});
      if (is_here) ++place;
      before += is_bound(id) ? costs_[id] : 0;
    }
    places_.push_back({static_cast<NodeId>(graph_.nodes.size()), before, 0});
  }

  // The stages that pins name between neighbouring places: the least and the greatest.
  void find_pins() {
    for (std::size_t i = 0; i + 1 < places_.size(); ++i) {
      auto& [least, most] = pins_.emplace_back(kNoId, 0);
      for (NodeId id = places_[i].node; id < places_[i + 1].node; ++id) {
        if (pinned_[id] == kNoId) continue;
        least = std::min(least, pinned_[id]);
        most = std::max(most, pinned_[id]);
      }
    }
  }

  [[nodiscard]] Ticks computing_ticks(std::uint32_t stage, std::size_t from, std::size_t to) const {
    return static_cast<Ticks>(static_cast<double>(places_[to].before - places_[from].before) / wish_.speeds[stage]);
  }

  struct Best {
    Ticks cost = kNever;
    std::size_t from = 0;
  };
  using Table = std::vector<std::vector<Best>>;  // by the number of stages so far, and the place where the last of them ends

  // Stages of at most `longest`, by what `add` makes of the cost of those before, a stage's ticks and what crosses at its end.
  template <class Add>
  [[nodiscard]] Table best_cuts(Ticks longest, Add add) const {
    Table best(wish_.stages + 1, std::vector<Best>(places_.size()));
    best[0][0].cost = 0;
    for (std::uint32_t stage = 0; stage < wish_.stages; ++stage) {
      for (std::size_t to = 1; to < places_.size(); ++to) {
        Best& here = best[stage + 1][to];
        for (std::size_t from = to; from-- > 0;) {
          const Ticks computing = computing_ticks(stage, from, to);
          if (computing > longest) break;
          const auto& [least, most] = pins_[from];
          if (least != kNoId && (least != stage || most != stage)) break;  // nor does any longer stage have what is pinned here
          const Ticks ticks = computing + places_[from].crossing + places_[to].crossing;
          if (best[stage][from].cost == kNever || ticks > longest) continue;
          const Ticks cost = add(best[stage][from].cost, ticks, places_[to].crossing);
          if (cost < here.cost) here = {cost, from};
        }
      }
    }
    return best;
  }

  Result<Balance> cut() const {
    const std::size_t last = places_.size() - 1;
    const Ticks shortest = best_cuts(kNever, [](Ticks before, Ticks stage, Ticks) { return std::max(before, stage); })[wish_.stages][last].cost;
    if (shortest == kNever) return refusal();
    const Table best = best_cuts(shortest + shortest / kSlack, [](Ticks before, Ticks, Ticks crossing) { return before + crossing; });
    Balance balance{std::vector<std::uint32_t>(graph_.nodes.size(), 0), std::vector<double>(wish_.stages, 0)};
    std::size_t to = last;
    for (std::uint32_t stage = wish_.stages; stage-- > 0;) {
      const std::size_t from = best[stage + 1][to].from;
      for (NodeId id = places_[from].node; id < places_[to].node; ++id) balance.stage_of[id] = is_bound(id) ? stage : 0;
      balance.seconds[stage] = to_seconds(computing_ticks(stage, from, to));
      to = from;
    }
    return balance;
  }

  [[nodiscard]] Error refusal() const {
    std::string text = "the model cannot be cut into " + std::to_string(wish_.stages) + " stages: ";
    if (places_.size() < wish_.stages + 1) return bad_input(text + "it has " + std::to_string(places_.size() - 2) + " places to cut; take at most " + std::to_string(places_.size() - 1) + " stages");
    return bad_input(text + "[pins] puts modules into stages that do not follow each other as the model does");
  }

  const PlanningContext& context_;
  const Graph& graph_;
  const BalanceWish& wish_;
  const std::vector<bool> depends_;
  std::vector<std::uint32_t> pinned_;  // by node: its stage, or kNoId
  std::vector<Ticks> costs_;           // by node
  std::vector<Place> places_;          // ascending; the first is the model's begin, the last its end
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pins_;  // by place but the last; kNoId and 0: none
};

}  // namespace

bool is_of_stage(const Pin& pin) { return stage_number(pin.text).has_value(); }

Result<std::vector<double>> seconds_on_one_device(const PlanningContext& context) {
  const Result<Plan> plan = serial_plan(context);
  if (!plan) return plan.error();
  std::vector<double> seconds(context.graph().nodes.size(), 0);
  for (const PlannedVariable& variable : plan->variables) {
    if (const PlannedNode* node = variable.node()) seconds[node->node] = variable.forward_seconds + variable.backward_seconds;
  }
  return seconds;
}

Result<Balance> balanced_stages(const PlanningContext& context, const BalanceWish& wish) { return Balancer(context, wish).run(); }

}  // namespace meshwright
