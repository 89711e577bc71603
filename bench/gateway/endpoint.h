// Sockets of the two benchmark programs: the loopback alone, non-blocking.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace kcc::bench {

int64_t NowNs();  // CLOCK_MONOTONIC, which all processes of the machine share

int ListenLocal(uint16_t port);  // exits with a message where it cannot
uint16_t PortOf(int listener);
int ConnectLocal(uint16_t port);
int AcceptFrom(int listener);  // below 0: nobody waits
// Waits for events, or for so many nanoseconds; below 0: for events alone. How many there are.
int WaitFor(int epoll, epoll_event* events, int most, int64_t wait_ns);
void Watch(int epoll, int socket, uint32_t events, bool known);

// As much as the socket takes; what is left stays in `bytes`. False: the connection is broken.
bool SendSome(int socket, std::string* bytes);
// Appends what is there to `bytes`. False: the other side is gone.
bool ReceiveSome(int socket, std::string* bytes);

// The digits that follow `key`, such as of "every-2000" with the key "every-"; `otherwise` without.
int64_t NumberAfter(std::string_view text, std::string_view key, int64_t otherwise);

}  // namespace kcc::bench
