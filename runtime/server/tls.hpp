// runtime/server/tls.hpp: loads the server's certificate.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

namespace mortise {

// Makes a context for TLS 1.2 and later. Throws an Error that names the file if the certificate chain or key cannot be
// read, or they do not match.
boost::asio::ssl::context load_tls(const std::string& certificate, const std::string& key);

}  // namespace mortise
