#include "world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>

#include "meshwright/log.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 30;  // bytes of a broadcast: MPI counts in an int
constexpr int kGroupTag = 0;
constexpr int kLooks = 200;
constexpr std::chrono::microseconds kSleep(20);
constexpr std::chrono::milliseconds kTurn(50);
constexpr int kMostTurns = 40;

// Before MPI is started, which without a launcher may try to start one.
bool is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace

World::World() {
  if (!is_launched()) return;
  check(MPI_Init(nullptr, nullptr), "MPI_Init");
  is_started_ = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &letters_), "MPI_Comm_dup");
  int* bound = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &is_set), "MPI_Comm_get_attr");
  largest_tag_ = is_set != 0 ? *bound : 32767;  // that of the standard
}

World::~World() {
  if (!is_started_) return;
  if (std::uncaught_exceptions() > 0) end_all(internal_error("rank " + std::to_string(rank_) + ": out of memory, or a fault of our own"));
  for (auto& [ranks, comm] : groups_) MPI_Comm_free(&comm);
  MPI_Comm_free(&letters_);
  MPI_Finalize();
}

MPI_Comm World::group(const std::vector<int>& ranks, Stream stream) {
  const auto [found, is_new] = groups_.try_emplace({ranks, stream}, MPI_COMM_NULL);
  if (!is_new) return found->second;
  MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  check(MPI_Comm_create_group(MPI_COMM_WORLD, members, kGroupTag, &found->second), "MPI_Comm_create_group");
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  return found->second;
}

void World::broadcast(std::span<std::byte> bytes, int root, MPI_Comm comm) {
  if (!is_started_) return;
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), static_cast<std::size_t>(kMostAtOnce));
    check(MPI_Bcast(bytes.data(), static_cast<int>(count), MPI_BYTE, root, comm), "MPI_Bcast");
    bytes = bytes.subspan(count);
  }
}

void World::share(std::span<const std::span<std::byte>> parts, int first) {
  std::vector<int> processes;
  for (std::size_t i = 0; i < parts.size(); ++i) processes.push_back(first + static_cast<int>(i));
  const MPI_Comm comm = group(processes, Stream::compute);
  for (std::size_t i = 0; i < parts.size(); ++i) broadcast(parts[i], static_cast<int>(i), comm);
}

// All make the same calls in the same order, so that the name says nothing.
std::vector<std::string> World::exchange(std::string_view, std::string_view own) {
  if (!is_started_) return {std::string(own)};
  const auto count = static_cast<std::size_t>(size_);
  const int size = static_cast<int>(own.size());
  std::vector<int> sizes(count), offsets(count, 0);
  check(MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + sizes.back()), '\0');
  check(MPI_Allgatherv(own.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgatherv");
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i])));
  return parts;
}

void World::check(int code, const char* what) const {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  end_all(plugin_failed(std::string(what) + ": " + std::string(text.data(), static_cast<std::size_t>(length))));
}

void World::end_all(const Error& error) const {
  // Where one process fails all may, at the same place: the first that is there to say it ends the others before their turn.
  std::this_thread::sleep_for(kTurn * std::min(rank_, kMostTurns));
  log(LogLevel::error, "mpi", error.message + "; it ends all " + std::to_string(size_) + " processes");
  if (is_started_) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.code));
  std::exit(static_cast<int>(error.code));
}

void Patience::pause() {
  if (++looked_ < kLooks) std::this_thread::yield();
  else std::this_thread::sleep_for(kSleep);
}

}  // namespace meshwright
