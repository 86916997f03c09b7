#include "link_matrix.h"

#include <algorithm>
#include <sstream>
#include <string>

namespace meshwright {

namespace {

constexpr double kMostSeconds = 1e3, kLeastRate = 1, kMostRate = 1e24;  // as in a cluster's file

std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

std::string pair_text(std::size_t a, std::size_t b) { return "devices " + std::to_string(a) + " and " + std::to_string(b); }

Status check_shape(const std::vector<std::vector<double>>& matrix, std::size_t devices, const char* what) {
  if (matrix.size() != devices) return bad_input("there are " + std::to_string(devices) + " devices, but " + std::to_string(matrix.size()) + " rows of " + what);
  for (std::size_t row = 0; row < devices; ++row) {
    if (matrix[row].size() == devices) continue;
    return bad_input("row " + std::to_string(row) + " of " + what + " has " + std::to_string(matrix[row].size()) + " values, but there are " + std::to_string(devices) + " devices: a matrix must be square");
  }
  return Done{};
}

Status check_link(std::size_t a, std::size_t b, double latency, double bandwidth) {
  if (bandwidth == 0) return bad_input(pair_text(a, b) + " are not connected: their bandwidth is 0; a mesh needs links between all of its devices, so leave one of them out");
  if (!(latency >= 0 && latency <= kMostSeconds)) return bad_input(pair_text(a, b) + ": latency is " + number_text(latency) + ", but must be from 0 to " + number_text(kMostSeconds) + " seconds");
  if (!(bandwidth >= kLeastRate && bandwidth <= kMostRate)) {
    return bad_input(pair_text(a, b) + ": bandwidth is " + number_text(bandwidth) + ", but must be from " + number_text(kLeastRate) + " to " + number_text(kMostRate) + " bytes per second");
  }
  return Done{};
}

Status check_directions(std::size_t a, std::size_t b, double there, double back, const char* what) {
  if (are_alike(there, back)) return Done{};
  return bad_input(pair_text(a, b) + ": " + what + " is " + number_text(there) + " from the first to the second and " + number_text(back) +
                   " back, which is more than noise; a mesh's links are alike in both directions: measure this pair again");
}

}  // namespace

Result<LinkMatrix> make_link_matrix(const std::vector<std::vector<double>>& latency_seconds, const std::vector<std::vector<double>>& bytes_per_second, Directions directions) {
  LinkMatrix links;
  links.devices = bytes_per_second.size();
  if (links.devices < 2 || links.devices > kMostMeasured) {
    return bad_input("links were measured among " + std::to_string(links.devices) + " devices, but must be among 2 to " + std::to_string(kMostMeasured));
  }
  Status status = check_shape(latency_seconds, links.devices, "latencies");
  if (status) status = check_shape(bytes_per_second, links.devices, "bandwidths");
  if (!status) return status.error();
  links.latency_seconds.assign(links.devices * links.devices, 0);
  links.bytes_per_second = links.latency_seconds;
  for (std::size_t a = 0; a < links.devices; ++a) {
    for (std::size_t b = a + 1; b < links.devices; ++b) {
      status = check_link(a, b, latency_seconds[a][b], bytes_per_second[a][b]);
      if (status) status = check_link(b, a, latency_seconds[b][a], bytes_per_second[b][a]);
      if (status && directions == Directions::alike) status = check_directions(a, b, bytes_per_second[a][b], bytes_per_second[b][a], "bandwidth");
      if (status && directions == Directions::alike) status = check_directions(a, b, latency_seconds[a][b], latency_seconds[b][a], "latency");
      if (!status) return status.error();
      double latency = std::sqrt(latency_seconds[a][b] * latency_seconds[b][a]), rate = std::sqrt(bytes_per_second[a][b]) * std::sqrt(bytes_per_second[b][a]);
      if (!are_alike(bytes_per_second[a][b], bytes_per_second[b][a]) || !are_alike(latency_seconds[a][b], latency_seconds[b][a])) {
        ++links.uneven;
        latency = std::max(latency_seconds[a][b], latency_seconds[b][a]);
        rate = std::min(bytes_per_second[a][b], bytes_per_second[b][a]);
      }
      links.latency_seconds[a * links.devices + b] = links.latency_seconds[b * links.devices + a] = latency;
      links.bytes_per_second[a * links.devices + b] = links.bytes_per_second[b * links.devices + a] = rate;
    }
  }
  return links;
}

}  // namespace meshwright
