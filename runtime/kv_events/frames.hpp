// runtime/kv_events/frames.hpp: helpers of both sockets of the publisher: frames, and listening.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <zmq.hpp>

namespace mortise {

// Bytes that the replay buffer and several readers' queues share.
using Payload = std::shared_ptr<const std::string>;

std::string seq_bytes(std::uint64_t seq);  // 8 bytes, big endian
std::uint64_t read_seq(std::string_view bytes);

zmq::message_t copied_frame(std::string_view bytes);
// A frame that holds `payload` until ZeroMQ has written it to the last reader's connection or dropped it. ZeroMQ's
// thread then releases the payload.
zmq::message_t shared_frame(const Payload& payload);

// Sends the frames as one message. Never waits: a reader that has gone, or is too far behind, misses the message.
void send_message(zmq::socket_t& socket, std::initializer_list<zmq::message_t*> frames);

// Sets the limits of a socket that anybody may write to, and listens.
// Errors call the endpoint `option`. Returns the endpoint with the actual port. Throws an Error, with kUnavailable if
// another process listens there.
std::string listen_at(zmq::socket_t& socket, const std::string& endpoint, const char* option);

}  // namespace mortise
