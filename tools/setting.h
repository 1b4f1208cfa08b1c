/* SPDX-License-Identifier: MIT */
/* Attributes of caches to be set in the program that is run. */
#ifndef TOOLS_SETTING_H
#define TOOLS_SETTING_H

#include <string>
#include <vector>

enum { SETTINGS_MAX = 511 }; /* bytes the tunable slab_attr takes */

/* Both: empty, or what is wrong, as CLI11 has it. */
std::string check_cache_name(const std::string &name);
/* CACHE/ATTR=VALUE. What only the program's own cache can tell, it tells when it is made. */
std::string check_setting(const std::string &setting);
/* As the tunable slab_attr has them. */
std::string join_settings(const std::vector<std::string> &settings);

#endif
