// runtime/server/tls.hpp: the certificate that a server shows.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

namespace mortise {

// TLS 1.2 and later. Throws an Error that names the file when certificate chain or key cannot be read, or are no pair.
boost::asio::ssl::context load_tls(const std::string& certificate, const std::string& key);

}  // namespace mortise
