/* SPDX-License-Identifier: MIT */
/* Attributes of caches to be set in the program that is run. */
#ifndef TOOLS_SETTING_H
#define TOOLS_SETTING_H

#include <string>
#include <vector>

enum { SETTINGS_MAX = 511 }; /* bytes the tunable slab_attr takes */

/* Validators for CLI11. Result: empty, or what is wrong. */
std::string check_cache_name(const std::string &name);
/* Checks CACHE/ATTR=VALUE, as far as it can be checked before the program makes the cache. */
std::string check_setting(const std::string &setting);
/* The settings in the form of the tunable slab_attr. */
std::string join_settings(const std::vector<std::string> &settings);

#endif
