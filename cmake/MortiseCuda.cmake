# CUDA, where its compiler is: MORTISE_CUDA says so. Without it everything but the CUDA parts is built; -DMORTISE_CUDA=OFF
# leaves them out although nvcc is there. Whatever is missing is one line and no error.
option(MORTISE_CUDA "build the CUDA device and its kernels if nvcc is found" ON)

macro(mortise_without_cuda reason)
  message(STATUS "CUDA: ${reason}; the device cuda and its kernels are not built")
  set(MORTISE_CUDA OFF)
  return()
endmacro()

if(NOT MORTISE_CUDA)
  mortise_without_cuda("MORTISE_CUDA is OFF")
endif()
find_program(MORTISE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
if(NOT MORTISE_NVCC)
  mortise_without_cuda("no nvcc on the PATH or in /usr/local/cuda/bin")
endif()
# sm_90a: Hopper with wgmma. sm_80: compute capability 8.0 to 8.9, of kernels that need neither wgmma nor TMA; targets that have
# them name both (MORTISE_CUDA_ALL_ARCHITECTURES). Machine code alone: other GPUs are told so in one line when the device is opened.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
set(MORTISE_CUDA_ALL_ARCHITECTURES 80-real ${CMAKE_CUDA_ARCHITECTURES})
if(NOT CMAKE_CUDA_COMPILER)
  set(ENV{CUDACXX} ${MORTISE_NVCC})
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    mortise_without_cuda("${MORTISE_NVCC} does not compile with ${CMAKE_CXX_COMPILER}")
  endif()
endif()
find_package(CUDAToolkit 13.0 QUIET)
if(NOT CUDAToolkit_FOUND)
  mortise_without_cuda("the toolkit of ${MORTISE_NVCC} is older than 13.0")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc 12 and later have C++20; 3.26 does
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# What every CUDA source is compiled with. The arithmetic is docs/numerics.md: denormals off, nothing fused or
# approximated behind our back.
add_library(mortise_cuda_flags INTERFACE)
target_compile_options(
  mortise_cuda_flags
  INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-ftz=true;-fmad=false;-prec-div=true;-prec-sqrt=true;--expt-relaxed-constexpr>"
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-ffp-contract=off,-fvisibility=hidden>")
target_include_directories(mortise_cuda_flags SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
