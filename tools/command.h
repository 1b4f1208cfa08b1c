/* SPDX-License-Identifier: MIT */
/* All commands share this: how their help looks, and what their arguments may be. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <cmath>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

/**
 * A usage line that names the arguments behind the options. The layout does not depend on the
 * version of CLI11: the completion for bash reads it, and CLI11 2.5 and later fill footers,
 * which are tables here, as paragraphs.
 */
struct usage_formatter : CLI::Formatter {
	explicit usage_formatter(std::string line) : usage(std::move(line))
	{
	}
	std::string make_help(const CLI::App *app, std::string name,
			      CLI::AppFormatMode mode) const override
	{
		const std::string footer = app->get_footer();

		return app->get_description() + "\n" + make_usage(app, std::move(name)) +
		       make_positionals(app) + make_groups(app, mode) +
		       make_subcommands(app, mode) + "\n" +
		       (footer.empty() ? "" : footer + "\n");
	}
	std::string make_usage(const CLI::App *, std::string) const override
	{
		return "Usage: " + usage + "\n";
	}
	std::string make_group(std::string group, bool is_positional,
			       std::vector<const CLI::Option *> options) const override
	{
		if (group == "OPTIONS" || group == "POSITIONALS")
			group = group[0] + CLI::detail::to_lower(group.substr(1));
		group = "\n" + group + ":\n";
		for (const CLI::Option *option : options)
			group += make_option(option, is_positional);
		return group;
	}
	std::string make_option(const CLI::Option *option, bool is_positional) const override
	{
		return entry(make_option_name(option, is_positional) + make_option_opts(option),
			     make_option_desc(option));
	}
	std::string make_subcommand(const CLI::App *sub) const override
	{
		return entry(sub->get_display_name(true), sub->get_description());
	}

	std::string usage;

      private:
	/* A name and, in a column of its own, what it means. */
	static std::string entry(const std::string &name, const std::string &meaning)
	{
		constexpr size_t column = 30;
		const std::string next_line = "\n" + std::string(column, ' ');
		std::string text = "  " + name;

		if (meaning.empty())
			return text + "\n";
		if (text.size() >= column)
			text += next_line;
		else
			text.resize(column, ' ');
		return text + CLI::detail::find_and_replace(meaning, "\n", next_line) + "\n";
	}
};

/** Adds a command. @arguments: those behind its options, for the usage line: " PID". */
inline CLI::App *add_command(CLI::App &app, const std::string &name,
			     const std::string &arguments, const std::string &help)
{
	CLI::App *sub = app.add_subcommand(name, help);

	sub->group("Commands");
	sub->formatter(
		std::make_shared<usage_formatter>("ukmem " + name + " [OPTIONS]" + arguments));
	return sub;
}

/** Says why a word is no PID; the result is empty if it is one. */
inline std::string check_pid(const std::string &text)
{
	constexpr size_t most_digits = 9; /* fewer than 2^31; Linux has at most 2^22 */
	const bool digits = text.find_first_not_of("0123456789") == std::string::npos;

	/* CLI11 takes "010" for 8. */
	return digits && !text.empty() && text[0] != '0' && text.size() <= most_digits
		       ? ""
		       : "'" + text + "' is not the number of a process";
}

/** Says why a text is no number of seconds from @least to a day; empty: it is one. */
inline CLI::Validator check_seconds(double least)
{
	/* A comparison with "nan" is false, so the range alone would take it. */
	const CLI::Validator is_number(
		[](std::string &text) {
			double n;

			return CLI::detail::lexical_cast(text, n) && !std::isfinite(n)
				       ? "'" + text + "' is no number of seconds"
				       : "";
		},
		"");

	return CLI::Range(least, 86400.0) & is_number;
}

/** Says why a word names no cache of a process; empty: it may. */
inline std::string check_cache_word(const std::string &name)
{
	return name.empty() ? "'' is no name of a cache" : "";
}

/** The positional PID of a command that looks at a process. */
inline CLI::Option *add_pid(CLI::App *command, pid_t &pid)
{
	return command->add_option("PID", pid, "Look at this process")
		->type_name("")
		->check(check_pid);
}

#endif
