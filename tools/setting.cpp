/* SPDX-License-Identifier: MIT */
#include "setting.h"

#include <cerrno>

#include <ukmem/slab.h>

/* The characters that separate settings from one another and from other tunables. */
static const char *const separators = ",;";

/* The tool's own process has the caches that the drop-in has; kmalloc() makes them. */
static struct kmem_cache *find_cache(const std::string &name)
{
	kfree(kmalloc(8, GFP_KERNEL));
	return kmem_cache_find(name.c_str());
}

std::string check_cache_name(const std::string &name)
{
	if (name.empty() || name.find_first_of(separators) != std::string::npos)
		return "'" + name + "' is no name of a cache";
	return find_cache(name) ? "" : "there is no cache '" + name + "'";
}

/*
 * A cache that stands for those that the program makes itself, with the library linked in. It
 * has small objects, so it takes every value that another cache takes.
 */
static struct kmem_cache *cache_like(const std::string &name)
{
	struct kmem_cache *s = find_cache(name);

	if (s)
		return s;

	/* The stand-in must not be found by its own name. */
	static struct kmem_cache *other = kmem_cache_create(",", 8, 0, 0, nullptr);

	return other;
}

std::string check_setting(const std::string &setting)
{
	const size_t eq = setting.find('=');
	const size_t slash = setting.rfind('/', eq);

	if (eq == std::string::npos || slash == std::string::npos || slash == 0 ||
	    setting.find_first_of(separators) != std::string::npos)
		return "'" + setting + "' is not CACHE/ATTR=VALUE";

	const std::string attr = setting.substr(slash + 1, eq - slash - 1);
	const std::string value = setting.substr(eq + 1);
	struct kmem_cache *cache = cache_like(setting.substr(0, slash));

	switch (cache ? kmem_cache_attr_store(cache, attr.c_str(), value.c_str()) : 0) {
	case 0:
		return "";
	case -ENOENT:
		return "'" + setting + "': there is no attribute '" + attr + "'";
	case -EACCES:
		return "'" + setting + "': the attribute '" + attr + "' cannot be set";
	default:
		return "'" + setting + "': bad value '" + value + "'";
	}
}

std::string join_settings(const std::vector<std::string> &settings)
{
	std::string all;

	for (const std::string &setting : settings)
		all += (all.empty() ? "" : ";") + setting;
	return all;
}
