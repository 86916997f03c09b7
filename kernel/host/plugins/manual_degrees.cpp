#include "plugins/manual_degrees.h"

#include <array>
#include <cstdint>
#include <utility>

namespace meshwright::host {

namespace {

struct Degrees {
  std::int64_t dp = 0, cp = 1, tp = 1, pp = 1;
};

// Without context parallelism it is not named.
std::string degrees_text(const Degrees& degrees) { return "dp " + std::to_string(degrees.dp) + (degrees.cp > 1 ? " x cp " + std::to_string(degrees.cp) : "") + " x tp " + std::to_string(degrees.tp) + " x pp " + std::to_string(degrees.pp); }

Status check_supported(const Config& manual) {
  const std::int64_t ep = manual.integer("ep");
  if (ep == 1) return Done{};
  return bad_input("\"ep\" in [inter.manual] is " + std::to_string(ep) + ", but a degree of expert parallelism cannot be given so far; leave it at 1, or take inter = \"grid\", which finds expert parallelism where it pays");
}

// What the degrees say stands nowhere else.
Status check_alone(const HostConfig& config) {
  const std::array said = {std::pair(config.given.stages, "\"stages\" in [search]"), std::pair(!config.cluster.text("mesh").empty(), "the mesh of each stage"),
                           std::pair(config.search.text("batch_axes") != "none", "\"batch_axes\" in [search]"), std::pair(config.search.text("context_axes") != "none", "\"context_axes\" in [search]"),
                           std::pair(config.search.text("weights") != "free", "\"weights\" in [search]")};
  for (const auto& [is_said, what] : said) {
    if (is_said) return bad_input(std::string(what) + " is what [inter.manual] says by its degrees (inter = \"manual\" in [search]); leave one of them out");
  }
  return Done{};
}

Result<Degrees> read_degrees(const Config& manual, const Cluster& cluster) {
  Degrees degrees{manual.integer("dp"), manual.integer("cp"), manual.integer("tp"), manual.integer("pp")};
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
  if (degrees.dp * group == devices) return degrees;
  return bad_input("[inter.manual]: " + degrees_text(degrees) + " = " + std::to_string(degrees.dp * group) + " devices, but there are " + of + "; change a degree, or leave out dp for what the others leave");
}

}  // namespace

Status set_degrees(const HostConfig& config, const Cluster& cluster, Config& search, std::string& mesh) {
  if (Status status = check_supported(config.manual); !status) return status;
  if (Status status = check_alone(config); !status) return status;
  const Result<Degrees> degrees = read_degrees(config.manual, cluster);
  if (!degrees) return degrees.error();
  search.set("stages", degrees->pp);
  if (degrees->pp == 1) search.set("chunks", std::int64_t{0});
  // Axes of size 1 are none, so that the batch's axis is the first one only where there is data parallelism.
  mesh = std::to_string(degrees->dp) + "x" + std::to_string(degrees->cp) + "x" + std::to_string(degrees->tp);
  search.set("batch_axes", std::string(degrees->dp > 1 ? "0" : "none"));
  search.set("context_axes", std::string(degrees->cp == 1 ? "none" : degrees->dp > 1 ? "1" : "0"));
  search.set("weights", std::string("sharded"));
  if (search.text("zero") == "free") search.set("zero", std::string("0"));
  return Done{};
}

}  // namespace meshwright::host
