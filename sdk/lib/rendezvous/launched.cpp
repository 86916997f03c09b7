#include "launched.h"

#include <charconv>
#include <string_view>
#include <utility>

namespace meshwright {

namespace {

constexpr int kMostRanks = 1 << 16;
constexpr int kMostPort = 65535;
constexpr int kUsualPort = 29500;  // MASTER_PORT, where nobody says otherwise

struct Names {
  const char* launcher;
  const char *rank, *size, *local_rank;
  bool any_says_so;  // one of them is enough to know the launcher: else only the rank is
};
// A batch script of Slurm has some of its variables too.
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", true},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", true},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false},
};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // An empty one is as one that is not set.
  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
  }
  [[nodiscard]] Result<std::optional<int>> number(const char* name, int least, int most) const {
    const std::optional<std::string> said = text(name);
    if (!said) return std::optional<int>();
    int value = 0;
    const auto [end, error] = std::from_chars(said->data(), said->data() + said->size(), value);
    if (error == std::errc() && end == said->data() + said->size() && value >= least && value <= most)
      return std::optional<int>(value);
    return bad_input(std::string(name) + " is \"" + *said + "\" in the environment; it is a number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  // One that has to be there.
  [[nodiscard]] Result<int> needed(const char* name, int least, int most, const std::string& of) const {
    const Result<std::optional<int>> found = number(name, least, most);
    if (!found) return found.error();
    if (*found) return **found;
    return bad_input(std::string(name) + " is not set in the environment, and others of " + of +
                     " are; set it, or --set emit.cuda.launcher=\"none\" to run all ranks in this process");
  }

 private:
  const Environment& environment_;
};

bool is_there(const Reader& reader, const Names& names) {
  if (reader.text(names.rank)) return true;
  return names.any_says_so && (reader.text(names.size) || reader.text(names.local_rank));
}

// As far as this process can know.
Result<bool> is_on_several(const Reader& reader, const Launched& launched) {
  if (launched.rank != launched.local_rank) return true;
  if (launched.launcher == "mpirun") {
    const Result<std::optional<int>> here = reader.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks);
    if (!here) return here.error();
    return *here && **here < launched.size;
  }
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}) {
    const Result<std::optional<int>> nodes = reader.number(name, 1, kMostRanks);
    if (!nodes) return nodes.error();
    if (*nodes) return **nodes > 1;
  }
  return false;
}

Status find_place(const Reader& reader, Launched& launched) {
  const bool by_torchrun = launched.launcher == "torchrun";
  const std::optional<std::string> address = reader.text("MASTER_ADDR");
  if (address) {
    launched.address = *address;
  } else {
    const Result<bool> several = by_torchrun ? Result<bool>(true) : is_on_several(reader, launched);
    if (!several) return several.error();
    if (*several)
      return bad_input("MASTER_ADDR is not set in the environment, and " +
                       std::string(by_torchrun ? "RANK is" : "the processes are on several machines") +
                       "; set it to the name or address of rank 0's machine, alike on all");
    launched.address = "127.0.0.1";
  }
  const Result<std::optional<int>> own = reader.number("MESHWRIGHT_PORT", 1, kMostPort),
                                   master = reader.number("MASTER_PORT", 1, kMostPort);
  if (!own) return own.error();
  if (!*own && !master) return master.error();
  if (!*own && !*master && by_torchrun)
    return bad_input(
        "MASTER_PORT is not set in the environment, and RANK is; set it, or MESHWRIGHT_PORT, alike on all");
  const int port = *own ? **own : 1 + (*master ? **master : kUsualPort);
  if (port > kMostPort)
    return bad_input("MASTER_PORT is 65535, and the ranks meet one above it; set MESHWRIGHT_PORT to a free port");
  launched.port = static_cast<std::uint16_t>(port);
  return Done{};
}

}  // namespace

Result<std::optional<Launched>> find_launched(const Environment& environment) {
  const Reader reader(environment);
  for (const Names& names : kLaunchers) {
    if (!is_there(reader, names)) continue;
    const Result<int> size = reader.needed(names.size, 1, kMostRanks, names.launcher);
    if (!size) return size.error();
    const Result<int> rank = reader.needed(names.rank, 0, *size - 1, names.launcher),
                      local = reader.needed(names.local_rank, 0, *size - 1, names.launcher);
    if (!rank) return rank.error();
    if (!local) return local.error();
    Launched launched{names.launcher, *rank, *size, *local, "", 0};
    if (Status status = find_place(reader, launched); !status) return status.error();
    return std::optional<Launched>(std::move(launched));
  }
  return std::optional<Launched>();
}

}  // namespace meshwright
