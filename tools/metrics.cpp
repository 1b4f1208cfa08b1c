/* SPDX-License-Identifier: MIT */
#include "metrics.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include <httplib.h>

#include "command.h"
#include "live/metrics.h"
#include "live/process.h"
#include "on_process.h"
#include "words.h"

namespace
{

/* Where the server listens. */
struct endpoint {
	std::string host;
	int port;
};

/* Of "PORT", "HOST:PORT" or "[HOST]:PORT"; without a host this machine alone can connect. */
std::optional<endpoint> parse_endpoint(const std::string &text)
{
	const size_t colon = text.rfind(':');
	std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
	const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);

	if (port.empty() || port.size() > 5 ||
	    port.find_first_not_of("0123456789") != std::string::npos ||
	    std::stoi(port) > 65535)
		return std::nullopt;
	if (host.size() > 2 && host.front() == '[' && host.back() == ']')
		host = host.substr(1, host.size() - 2);
	return endpoint{ host.empty() ? "127.0.0.1" : host, std::stoi(port) };
}

std::string check_endpoint(const std::string &text)
{
	return parse_endpoint(text) ? "" : "'" + text + "' is not [HOST:]PORT";
}

/* The process, read by one request at a time. */
class source
{
      public:
	explicit source(pid_t pid) : process(pid), reader(process), mode(reader.mode())
	{
	}

	std::string text(live::metrics_format format)
	{
		const std::lock_guard<std::mutex> guard(lock);

		look();
		return live::metrics(*before, mode, process.program(), format);
	}

	live::json json()
	{
		const std::lock_guard<std::mutex> guard(lock);

		look();

		live::json all = { { "ukmem", about_json(process, mode.version) } };

		all.update(live::metrics_json(*before, mode, process.program()));
		return all;
	}

	/* Returns when the process has ended, or a look has found another program. Where it
	 * cannot be told whether the process has ended, as while clients have all file
	 * descriptors, the next round tells. */
	void wait_for_end(const std::atomic<bool> &stopped)
	{
		while (!stopped && !replaced) {
			try {
				const std::lock_guard<std::mutex> guard(lock);

				process.check_alive();
			} catch (const live::error &e) {
				if (e.why == live::reason::gone)
					return;
			}
			std::this_thread::sleep_for(std::chrono::milliseconds(200));
		}
	}

	/* Nothing is to be had any more: the process runs another program. */
	std::atomic<bool> replaced{ false };

      private:
	/* Under the lock. */
	void look()
	{
		live::snapshot now;

		try {
			now = reader.take(live::metrics_contents);
		} catch (const live::error &e) {
			replaced = replaced || e.why == live::reason::replaced;
			throw;
		}
		if (before)
			live::keep_counters(*before, now);
		before = std::move(now);
	}

	std::mutex lock;
	live::process process;
	live::reader reader;
	const live::mode mode;
	std::optional<live::snapshot> before;
};

/* In OpenMetrics, if the client says that it reads that. */
void answer(source &from, const httplib::Request &request, httplib::Response &response)
{
	const bool open = request.get_header_value("Accept").find(
				  "application/openmetrics-text") != std::string::npos;
	const auto format = open ? live::metrics_format::OPEN : live::metrics_format::CLASSIC;

	try {
		response.set_content(from.text(format), live::metrics_type(format));
	} catch (const live::error &e) {
		response.status = 503;
		response.set_content(std::string(e.what()) + "\n", "text/plain; charset=utf-8");
	}
}

/* Stops the server when the process has ended. Its thread ends with it, also where the server
 * throws. */
class ender
{
      public:
	ender(source &from, httplib::Server &server)
	    : thread([&from, &server, this] {
		      from.wait_for_end(stopped);
		      /* A server that does not listen yet cannot be stopped. */
		      while (!stopped && !server.is_running())
			      std::this_thread::sleep_for(std::chrono::milliseconds(10));
		      server.stop();
	      })
	{
	}
	~ender()
	{
		stopped = true;
		thread.join();
	}
	ender(const ender &) = delete;
	ender &operator=(const ender &) = delete;

      private:
	std::atomic<bool> stopped{ false };
	std::thread thread;
};

int serve(source &from, const endpoint &at)
{
	httplib::Server server;
	const bool any = at.port == 0;

	/* The default would share the port with whoever has it already. */
	server.set_socket_options([](socket_t sock) {
		const int yes = 1;

		setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	});
	/* A connection has a thread for itself. One that says nothing, or not all, keeps it no
	 * longer than this; a scraper connects anew. */
	server.set_keep_alive_timeout(1);
	server.set_read_timeout(1, 0);
	server.set_write_timeout(5, 0);
	server.set_payload_max_length(1 << 16);
	server.new_task_queue = [] { return new httplib::ThreadPool(32); };
	server.Get("/metrics",
		   [&](const httplib::Request &request, httplib::Response &response) {
			   answer(from, request, response);
		   });
	server.Get("/", [](const httplib::Request &, httplib::Response &response) {
		response.set_content("ukmem: the metrics are at /metrics\n",
				     "text/plain; charset=utf-8");
	});

	errno = 0;

	const int port = any ? server.bind_to_any_port(at.host.c_str())
			     : (server.bind_to_port(at.host.c_str(), at.port) ? at.port : -1);

	if (port < 0)
		return fail(
			EXIT_FAILURE,
			"cannot listen on " + at.host + ", port " + std::to_string(at.port) +
				(errno ? std::string(": ") + strerror(errno) : std::string()));
	std::cout << "ukmem: serving http://"
		  << (at.host.find(':') == std::string::npos ? at.host : "[" + at.host + "]")
		  << ":" << port << "/metrics until the process ends" << std::endl;

	const ender end(from, server);

	if (!server.listen_after_bind())
		return fail(EXIT_FAILURE, "the HTTP server failed");
	if (from.replaced)
		throw live::error(live::reason::replaced, "it runs another program now");
	return EXIT_SUCCESS;
}

} // namespace

CLI::App *add_metrics(CLI::App &app, metrics_options &options)
{
	CLI::App *sub =
		add_command(app, "metrics", " PID",
			    "Print the numbers of a process for Prometheus, or serve them "
			    "by HTTP");

	add_pid(sub, options.pid)->required();
	CLI::Option *listen =
		sub->add_option(
			   "--listen", options.listen,
			   "Serve them at /metrics until the process ends; without HOST only "
			   "to this machine; port 0: any")
			->type_name("[HOST:]PORT")
			->check(check_endpoint);
	CLI::Option *format = sub->add_option(
		"--format", options.format,
		"openmetrics (the default), or text: the format before it, for promtool "
		"and for collectors\nof files; a client of --listen says itself which it "
		"reads");

	format->type_name("FORMAT")->check(CLI::IsMember({ "openmetrics", "text" }));
	sub->add_flag("--json", options.json, "As one JSON object in a line")
		->excludes(listen)
		->excludes(format);
	return sub;
}

int metrics(const metrics_options &options)
{
	return on_process(options.pid, [&] {
		source from(options.pid);

		if (!options.listen.empty())
			return serve(from, *parse_endpoint(options.listen));
		if (options.json)
			print_json(from.json());
		else
			std::cout << from.text(options.format == "text"
						       ? live::metrics_format::CLASSIC
						       : live::metrics_format::OPEN);
		return end_output();
	});
}
