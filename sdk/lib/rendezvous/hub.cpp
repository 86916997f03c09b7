#include "hub.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exchange.h"
#include "process_world.h"
#include "wire.h"

namespace meshwright {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kHello{10};   // in which one who connects says who it is
constexpr std::chrono::seconds kSaying{3};   // in which all say why they end
constexpr std::chrono::seconds kLeaving{6};  // that a hub waits for the last ones
constexpr std::chrono::seconds kBinding{5};  // in which a port becomes free that a run before had
constexpr std::size_t kMostStrangers = 256, kMostNamed = 8;

bool is_loopback(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return address == "localhost" || (!error && parsed.is_loopback());
}

}  // namespace

std::string names_of_ranks(const std::vector<int>& ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kMostNamed) return names + ", ... (" + std::to_string(ranks.size()) + " of them)";
    names += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return names;
}

// All of it, but what is said to be thread-safe, on the thread that runs `io_`.
class Hub::Room {
 public:
  Room(int ranks, std::string place, std::chrono::seconds arrival)
      : place_(std::move(place)), arrival_(arrival), members_(static_cast<std::size_t>(ranks)), opened_(Clock::now()) {}
  ~Room() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    for (const Stranger& stranger : strangers_) stranger.wire->close();
    for (const Member& member : members_) {
      if (member.wire) member.wire->close();
    }
  }

  Status listen(const std::string& address, std::uint16_t port) {
    const bool here = is_loopback(address), by_six = address == "::1";
    std::string why;
    for (const Clock::time_point last = Clock::now() + std::min(kBinding, arrival_);;) {
      why = here ? bind(by_six ? tcp::endpoint(asio::ip::address_v6::loopback(), port)
                               : tcp::endpoint(asio::ip::address_v4::loopback(), port))
                 : bind(tcp::endpoint(tcp::v6(), port));
      if (!why.empty() && !here) why = bind(tcp::endpoint(tcp::v4(), port));
      if (why.empty() || Clock::now() > last) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    if (!why.empty())
      return bad_input("rank 0 can't listen at port " + std::to_string(port) + ": " + why +
                       "; set MESHWRIGHT_PORT, alike on all ranks, to a port that is free on rank 0's machine");
    accept();
    tick();
    thread_ = std::thread([this] {
      io_.run();
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      over_.notify_all();
    });
    return Done{};
  }

  // Thread-safe.
  bool wait() {
    std::unique_lock lock(mutex_);
    return over_.wait_for(lock, kLeaving, [this] { return is_over_; });
  }

 private:
  struct Member {
    std::shared_ptr<Wire> wire;        // null: it has not come, or its connection is lost
    std::string who;                   // as it says itself
    bool has_left = false;             // it said so
    std::optional<std::string> next;   // the name of the exchange that it comes to
    std::optional<std::string> given;  // to that, when it has come
  };
  struct Stranger {
    std::shared_ptr<Wire> wire;
    Clock::time_point since;
  };

  // Why not; "": it listens.
  std::string bind(const tcp::endpoint& at) {
    boost::system::error_code error, ignored;
    acceptor_.close(ignored);
    acceptor_.open(at.protocol(), error);
    if (!error && at.protocol() == tcp::v6() && !at.address().is_loopback())
      acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error ? error.message() : "";
  }

  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error && strangers_.size() < kMostStrangers) meet(std::make_shared<Wire>(std::move(socket)));
      accept();
    });
  }

  void meet(const std::shared_ptr<Wire>& wire) {
    strangers_.push_back({wire, Clock::now()});
    wire->read([this, wire](const Frame& frame) { greet(wire, frame); },
               [this, wire](const std::string&) { drop(wire); });
  }
  void drop(const std::shared_ptr<Wire>& wire) {
    std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.wire == wire; });
    wire->close();
  }

  void greet(const std::shared_ptr<Wire>& wire, const Frame& hello) {
    if (hello.kind == FrameKind::alive) return;
    std::string why;
    const int ranks = static_cast<int>(members_.size());
    if (hello.kind != FrameKind::hello)
      why = "it did not say who it is";
    else if (hello.number != members_.size())
      why = "it belongs to " + std::to_string(hello.number) + " ranks, and those that meet at " + place_ + " are " +
            std::to_string(ranks);
    else if (hello.peer < 0 || hello.peer >= ranks)
      why = "there is no such rank";
    else if (!at(hello.peer).who.empty())
      why = "a rank of this number is there already, " + at(hello.peer).who +
            "; give each run on a machine a port of its own, with MESHWRIGHT_PORT";
    std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.wire == wire; });
    if (!why.empty()) {
      wire->write(Frame{FrameKind::refused, 0, 0, why});
      return wire->close(true);
    }
    Member& member = at(hello.peer);
    member.wire = wire;
    member.who = "rank " + std::to_string(hello.peer) + " (" + hello.content.substr(0, 300) + ")";
    wire->trust();
    const int rank = hello.peer;
    wire->read([this, rank](const Frame& frame) { hear(rank, frame); },
               [this, rank](const std::string& reason) { lose(rank, reason); });
    if (++came_ == members_.size()) to_all(Frame{FrameKind::welcome, 0, 0, {}});
  }

  void hear(int rank, const Frame& frame) {
    Member& member = at(rank);
    if (frame.kind == FrameKind::exchange || frame.kind == FrameKind::announced) {
      const auto said = parse_named(frame.content);
      if (!said) return end(internal_error(member.who + " gives what has no name"));
      member.next = said->name;
      if (frame.kind == FrameKind::exchange) member.given = said->bytes;
      give();
    } else if (frame.kind == FrameKind::letter) {
      if (frame.peer < 0 || frame.peer >= static_cast<int>(members_.size())) return;
      Member& to = at(frame.peer);
      if (to.wire) to.wire->write(Frame{FrameKind::letter, rank, frame.number, frame.content});
    } else if (frame.kind == FrameKind::failed) {
      end({error_code_of(frame.number), frame.content});
    } else if (frame.kind == FrameKind::bye) {
      member.has_left = true;
      if (!first_left_at_) first_left_at_ = Clock::now();
      close_if_all_left();
    }
  }

  // Where all have given, each gets all of it. Where one gives what another one does not come to, one has failed.
  void give() {
    const auto first = std::ranges::find_if(members_, [](const Member& member) { return member.given.has_value(); });
    if (first == members_.end()) return;
    const auto other = std::ranges::find_if(
        members_, [&](const Member& member) { return member.next && *member.next != *first->next; });
    if (other != members_.end()) return come_apart(*first, *other);
    if (!std::ranges::all_of(members_, [](const Member& member) { return member.given.has_value(); })) return;
    Frame given{FrameKind::given, 0, 0, {}};
    for (Member& member : members_) {
      append_part(given.content, *member.given);
      member.given.reset();
      member.next.reset();
    }
    to_all(given);
  }

  void come_apart(const Member& one, const Member& other) {
    for (const Member& member : members_) {
      if (!member.given || *member.next != kAgreement) continue;
      if (const Status status = parse_status(*member.given); !status) return end(status.error());
    }
    end(internal_error(one.who + " is at '" + *one.next + "', and " + other.who + " at '" + *other.next +
                       "'; start all ranks with the same plan and options, --steps among them"));
  }

  void lose(int rank, const std::string& why) {
    Member& member = at(rank);
    member.wire->close();
    member.wire = nullptr;
    if (!member.has_left && !ended_)
      end(plugin_failed(member.who + " has gone: it ended, or its machine can't be reached (" + why + ")"));
    close_if_all_left();
  }

  // All are told, once. Whoever comes later is of another run.
  void end(const Error& error) {
    if (ended_) return;
    stop_accepting();
    ended_ = error;
    ended_at_ = Clock::now();
    to_all(Frame{FrameKind::ended, 0, static_cast<std::uint64_t>(error.code), error.message});
    close_if_all_left();
  }

  void close_if_all_left() {
    const bool is_full = came_ == members_.size() || ended_;
    const bool all =
        std::ranges::all_of(members_, [](const Member& member) { return !member.wire || member.has_left; });
    if (is_full && all) close();
  }

  void stop_accepting() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (const Stranger& stranger : strangers_) stranger.wire->close();
    strangers_.clear();
  }

  void close() {
    stop_accepting();
    timer_.cancel();
    is_closed_ = true;
    for (Member& member : members_) {
      if (!member.wire) continue;
      member.wire->write(Frame{FrameKind::leave, 0, 0, {}});
      member.wire->close(true);
    }
  }

  void tick() {
    timer_.expires_after(kBeat);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || is_closed_) return;
      const Clock::time_point now = Clock::now();
      to_all(Frame{});
      for (const Member& member : members_) {
        if (!member.wire || member.has_left || now - member.wire->heard_at() < kSilence) continue;
        end(plugin_failed(member.who + " has said nothing for " + std::to_string(kSilence.count()) +
                          " s: it hangs, or its machine can't be reached"));
      }
      if (came_ < members_.size() && now - opened_ > arrival_) miss();
      if (first_left_at_ && now - *first_left_at_ > kSilence) part();
      const std::vector<Stranger> strangers = strangers_;
      for (const Stranger& stranger : strangers) {
        if (now - stranger.since > kHello) drop(stranger.wire);
      }
      if (ended_ && now - ended_at_ > kSaying) return close();
      tick();
    });
  }

  void miss() {
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (members_[rank].who.empty()) missing.push_back(static_cast<int>(rank));
    }
    end(plugin_failed(names_of_ranks(missing) + " of " + std::to_string(members_.size()) + " did not come to " +
                      place_ + " within " + std::to_string(arrival_.count()) +
                      " s; start all ranks, with the same MASTER_ADDR and port, or wait longer with --set "
                      "emit.cuda.arrival_seconds"));
  }

  // Whoever goes on would wait for ever.
  void part() {
    std::vector<int> left, stay;
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      (members_[rank].has_left ? left : stay).push_back(static_cast<int>(rank));
    end(internal_error(names_of_ranks(left) + " came to the end, and " + names_of_ranks(stay) +
                       " did not; start all ranks with the same plan and options"));
  }

  void to_all(const Frame& frame) {
    const auto packed = Wire::packed(frame);
    for (Member& member : members_) {
      if (member.wire) member.wire->write(packed);
    }
  }

  Member& at(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  asio::io_context io_;
  tcp::acceptor acceptor_{io_};
  asio::steady_timer timer_{io_};
  const std::string place_;
  const std::chrono::seconds arrival_;
  std::vector<Member> members_;  // by rank
  std::vector<Stranger> strangers_;
  const Clock::time_point opened_;
  std::size_t came_ = 0;
  std::optional<Clock::time_point> first_left_at_;
  std::optional<Error> ended_;
  Clock::time_point ended_at_;
  bool is_closed_ = false;

  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

Hub::Hub(std::unique_ptr<Room> room) : room_(std::move(room)) {}
Hub::~Hub() { room_->wait(); }
bool Hub::wait_until_left() { return room_->wait(); }

Result<std::unique_ptr<Hub>> Hub::open(const std::string& address, std::uint16_t port, int ranks,
                                       std::chrono::seconds arrival) {
  auto room = std::make_unique<Room>(ranks, address + ":" + std::to_string(port), arrival);
  if (Status status = room->listen(address, port); !status) return status.error();
  return std::unique_ptr<Hub>(new Hub(std::move(room)));
}

}  // namespace meshwright
