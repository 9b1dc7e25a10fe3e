# The one place that sets compiler flags which could touch a rounding.
# -ffp-contract=off: a*b+c is two roundings unless the source says fma.
set(ISOBIT_STRICT_FP_FLAGS -ffp-contract=off -fno-fast-math -fno-math-errno -fno-trapping-math)

function(isobit_strict_fp target)
  target_compile_options(${target} PRIVATE ${ISOBIT_STRICT_FP_FLAGS} -Wall -Wextra)
  if(ISOBIT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# Proof at configure time: a program built with these flags and with fused multiply-add instructions at hand must round
# a*b+c twice. Runs once a build folder; a compiler that fuses all the same is refused.
function(isobit_prove_strict_fp)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "isobit: cannot run programs of ${CMAKE_SYSTEM_PROCESSOR} here, rounding not proven")
    return()
  endif()
  set(flags ${ISOBIT_STRICT_FP_FLAGS} -O3)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    list(APPEND flags -mfma)
  endif()
  try_run(ISOBIT_ROUNDING_EXIT ISOBIT_ROUNDING_COMPILES ${CMAKE_BINARY_DIR}/strict_fp_proof
    ${PROJECT_SOURCE_DIR}/cmake/strict_fp_proof.cc COMPILE_DEFINITIONS ${flags})
  if(NOT ISOBIT_ROUNDING_COMPILES OR NOT ISOBIT_ROUNDING_EXIT EQUAL 0)
    message(FATAL_ERROR "isobit: ${CMAKE_CXX_COMPILER} with ${flags} does not round a*b+c twice "
      "(compiles: ${ISOBIT_ROUNDING_COMPILES}, exit: ${ISOBIT_ROUNDING_EXIT}). Identical bits need that.")
  endif()
endfunction()
