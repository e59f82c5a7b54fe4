// plugins/devices/checks/matrix.hpp: checks of the tensors and activations that operations get. Each throws
// Failure(INVALID_ARGUMENT). `where` is the operation and `name` the tensor's name in mortise/device.h, both static
// text. Elements are not read: they are device memory.
#pragma once

#include <cstdint>
#include <string>

#include "mortise/tensor.h"

namespace mortise {

std::string matrix_text(std::int32_t dtype, std::int64_t rows, std::int64_t columns);  // "bf16 [2, 4096]"
std::string matrix_text(const mortise_tensor& matrix);

// Checks that the matrix has two dimensions below 2^31, elements in bf16 or f32 at a multiple of their size, rows of
// neighbouring elements that do not overlap, and lies within its `bytes`. An empty one needs no memory.
void check_matrix(const mortise_tensor* tensor, const char* where, const char* name);

// Checks that both have the same shape and dtype. REQUIRES: both passed check_matrix.
void require_same(const char* where, const char* a_name, const mortise_tensor& a, const char* b_name,
                  const mortise_tensor& b);

// Checks the division of x's columns among ranks: `columns` [world + 1] ascends from 0 to all of them. REQUIRES: x
// passed check_matrix.
void check_columns(const mortise_tensor& x, const std::int64_t* columns, std::int32_t world, const char* where);

// Checks that `activation` is one of MORTISE_ACT_*.
void check_activation_code(std::int32_t activation, const char* where);

}  // namespace mortise
