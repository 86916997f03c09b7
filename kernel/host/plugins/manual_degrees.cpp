#include "plugins/manual_degrees.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "expert_layers.h"

namespace meshwright::host {

namespace {

struct Degrees {
  std::int64_t dp = 0, cp = 1, tp = 1, pp = 1;
  std::int64_t ep = 1;  // of dp
};

// Without context parallelism it is not named.
std::string degrees_text(const Degrees& degrees) { return "dp " + std::to_string(degrees.dp) + (degrees.cp > 1 ? " x cp " + std::to_string(degrees.cp) : "") + " x tp " + std::to_string(degrees.tp) + " x pp " + std::to_string(degrees.pp); }

Status check_experts(const ModelAnalysis& model, std::int64_t ep) {
  if (ep == 1) return Done{};
  const std::string said = "\"ep\" in [inter.manual] is " + std::to_string(ep);
  const std::vector<ExpertLayer> layers = expert_layers(model);
  if (layers.empty()) return bad_input(said + ", but the model has no layer of experts that is known as one; leave it at 1");
  for (const ExpertLayer& layer : layers) {
    if (layer.experts % ep != 0) return bad_input(said + ", which does not divide the " + std::to_string(layer.experts) + " experts of '" + layer.name + "'; take a divisor of that");
  }
  return Done{};
}

// What the degrees say stands nowhere else.
Status check_alone(const HostConfig& config) {
  const std::array said = {std::pair(config.search.text("expert_axes") != "none", "\"expert_axes\" in [search]"),
                           std::pair(config.given.stages, "\"stages\" in [search]"), std::pair(!config.cluster.text("mesh").empty(), "the mesh of each stage"),
                           std::pair(config.search.text("batch_axes") != "none", "\"batch_axes\" in [search]"), std::pair(config.search.text("context_axes") != "none", "\"context_axes\" in [search]"),
                           std::pair(config.search.text("weights") != "free", "\"weights\" in [search]")};
  for (const auto& [is_said, what] : said) {
    if (is_said) return bad_input(std::string(what) + " is what [inter.manual] says by its degrees (inter = \"manual\" in [search]); leave one of them out");
  }
  return Done{};
}

// The axes of a stage's mesh, from the outermost one. Those of size 1 are none, and not counted.
class StageAxes {
 public:
  // `used`: texts that name the axis.
  void add(std::int64_t size, std::initializer_list<std::string*> used) {
    mesh += (mesh.empty() ? "" : "x") + std::to_string(size);
    if (size == 1) return;
    for (std::string* axes : used) *axes += (axes->empty() ? "" : ",") + std::to_string(count_);
    ++count_;
  }

  std::string mesh, batch, experts, context;

 private:
  std::size_t count_ = 0;
};

std::string or_none(std::string axes) { return axes.empty() ? "none" : axes; }

Result<Degrees> read_degrees(const Config& manual, const Cluster& cluster) {
  Degrees degrees{manual.integer("dp"), manual.integer("cp"), manual.integer("tp"), manual.integer("pp"), manual.integer("ep")};
  const std::int64_t devices = cluster.devices();
  const std::string of = std::to_string(devices) + " devices of '" + cluster.name + "'";
  for (const auto& [key, degree] : std::array{std::pair("dp", degrees.dp), std::pair("cp", degrees.cp), std::pair("tp", degrees.tp), std::pair("pp", degrees.pp)}) {
    if (degree > devices) return bad_input("\"" + std::string(key) + "\" in [inter.manual] is " + std::to_string(degree) + ", more than the " + of);
  }
  const std::int64_t group = degrees.cp * degrees.tp * degrees.pp;
  if (degrees.dp == 0) {
    if (devices % group != 0) return bad_input("[inter.manual]: " + (degrees.cp > 1 ? "cp " + std::to_string(degrees.cp) + " x " : "") + "tp " + std::to_string(degrees.tp) + " x pp " + std::to_string(degrees.pp) + " = " + std::to_string(group) + " does not divide the " + of);
    degrees.dp = devices / group;
  }
  if (degrees.dp * group == devices) {
    if (degrees.dp % degrees.ep == 0) return degrees;
    return bad_input("[inter.manual]: ep " + std::to_string(degrees.ep) + " does not divide dp " + std::to_string(degrees.dp) + ", the devices that experts lie over; take a divisor of that, or less cp, tp or pp");
  }
  return bad_input("[inter.manual]: " + degrees_text(degrees) + " = " + std::to_string(degrees.dp * group) + " devices, but there are " + of + "; change a degree, or leave out dp for what the others leave");
}

}  // namespace

Status set_degrees(const HostConfig& config, const Cluster& cluster, const ModelAnalysis& model, Config& search, std::string& mesh) {
  if (Status status = check_experts(model, config.manual.integer("ep")); !status) return status;
  if (Status status = check_alone(config); !status) return status;
  const Result<Degrees> degrees = read_degrees(config.manual, cluster);
  if (!degrees) return degrees.error();
  search.set("stages", degrees->pp);
  if (degrees->pp == 1) search.set("chunks", std::int64_t{0});
  StageAxes axes;
  axes.add(degrees->dp / degrees->ep, {&axes.batch});
  if (degrees->ep > 1) axes.add(degrees->ep, {&axes.batch, &axes.experts});
  axes.add(degrees->cp, {&axes.context});
  axes.add(degrees->tp, {});
  mesh = axes.mesh;
  search.set("batch_axes", or_none(axes.batch));
  search.set("expert_axes", or_none(axes.experts));
  search.set("context_axes", or_none(axes.context));
  search.set("weights", std::string("sharded"));
  if (search.text("zero") == "free") search.set("zero", std::string("0"));
  return Done{};
}

}  // namespace meshwright::host
