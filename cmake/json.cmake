# isobit_json: the header of nlohmann-json, a private dependency of src/checkpoint. Found as a system package or, in a
# pip build, from the nlohmann-json package of the build environment.
find_path(ISOBIT_JSON_INCLUDE nlohmann/json.hpp PATH_SUFFIXES include nlohmann_json/include)
if(NOT ISOBIT_JSON_INCLUDE)
  message(FATAL_ERROR "isobit: nlohmann/json.hpp not found. Install it with `apt install nlohmann-json3-dev` or "
    "`pip install nlohmann-json`, or pass -DISOBIT_JSON_INCLUDE=<folder that holds nlohmann/json.hpp>.")
endif()
# A link to that one folder: a cross build must not see the rest of /usr/include.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/json_include)
file(CREATE_LINK ${ISOBIT_JSON_INCLUDE}/nlohmann ${CMAKE_BINARY_DIR}/json_include/nlohmann SYMBOLIC)
add_library(isobit_json INTERFACE)
target_include_directories(isobit_json SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/json_include)
