package main

// Label matchers for the selected installation and the selected catalogs.
const (
	installation = `namespace=~"$namespace", job=~"$job"`
	catalogs     = installation + `, catalog=~"$catalog"`
)

// ofLeader returns a query of a metric by catalog without the values of former leaders.
func ofLeader(metric string) string {
	return "max by (namespace, job, catalog) (" + metric + "{" + catalogs + "} unless on (job, instance) catalogd_leading == 0)"
}

// rows are the rows of the dashboard, from the top.
var rows = []row{
	{"At a glance", []panel{
		stat("Catalogs Ready", unitNone, "sum("+ofLeader("catalogd_ready")+")", ""),
		stat("Catalogs", unitNone, "count("+ofLeader("catalogd_ready")+")", ""),
		stat("Packages", unitNone, "sum("+ofLeader("catalogd_packages")+")", ""),
		stat("Invalid packages", unitNone, "sum("+ofLeader("catalogd_invalid_packages")+")", ""),
		stat("Replicas by version", unitNone, `count by (version) (catalogd_build_info{`+installation+`})`, "{{version}}"),
		stat("Certificate expires in", unitSeconds, `min(catalogd_certificate_expiry_timestamp_seconds{`+installation+`}) - time()`, ""),
	}},
	{"Catalogs", []panel{
		graph("Ready", "1 if a catalog is Ready", unitNone, ofLeader("catalogd_ready"), "{{catalog}}"),
		graph("Time since the content was last known to be current",
			"Time since a poll last found the served digest current; an alert fires after five polling intervals", unitSeconds,
			`time() - max by (namespace, job, catalog) (catalogd_content_current_timestamp_seconds{`+catalogs+`})`, "{{catalog}}"),
		graph("Time since the last change", "", unitSeconds,
			`time() - max by (namespace, job, catalog) (catalogd_last_change_timestamp_seconds{`+catalogs+`})`, "{{catalog}}"),
		graph("Packages", "Published packages", unitNone, ofLeader("catalogd_packages"), "{{catalog}}"),
		graph("Invalid packages", "Packages that failed validation and are not published", unitNone,
			ofLeader("catalogd_invalid_packages"), "{{catalog}}"),
		graph("Size of the content", "As JSON lines", unitBytes, ofLeader("catalogd_content_bytes"), "{{catalog}}"),
	}},
	{"Registries", []panel{
		graph("Polls", "By result", unitPerSecond,
			`sum by (result) (rate(catalogd_polls_total{`+catalogs+`}[$__rate_interval]))`, "{{result}}"),
		graph("Failed polls in the last hour", "By catalog", unitNone,
			`sum by (catalog) (increase(catalogd_polls_total{`+catalogs+`, result="failure"}[1h]))`, "{{catalog}}"),
		graph("Time until the next poll", "Negative values are overdue", unitSeconds,
			ofLeader("catalogd_next_poll_timestamp_seconds")+" - time()", "{{catalog}}"),
		graph("Duration of the last unpacking", "", unitSeconds, ofLeader("catalogd_unpack_seconds"), "{{catalog}}"),
	}},
	{"Content service", []panel{
		graph("Requests", "By status", unitPerSecond,
			`sum by (code) (rate(catalogd_http_requests_total{`+installation+`}[$__rate_interval]))`, "{{code}}"),
		graph("Requests by route", "", unitPerSecond,
			`sum by (route) (rate(catalogd_http_requests_total{`+installation+`}[$__rate_interval]))`, "{{route}}"),
		graph("Duration, 99th percentile", "By route, without change feeds", unitSeconds,
			`histogram_quantile(0.99, sum by (route, le) `+
				`(rate(catalogd_http_request_duration_seconds_bucket{`+installation+`, route!~".*/watch"}[$__rate_interval])))`, "{{route}}"),
		graph("Bytes sent", "By encoding", unitBytesPerSecond,
			`sum by (encoding) (rate(catalogd_http_response_bytes_total{`+installation+`}[$__rate_interval]))`, "{{encoding}}"),
		graph("Requests in flight", "Including change feeds", unitNone,
			`sum by (route) (catalogd_http_requests_in_flight{`+installation+`})`, "{{route}}"),
		graph("Connections", "", unitNone,
			`sum by (instance) (catalogd_connections{`+installation+`, port="content"})`, "{{instance}}"),
	}},
	{"Replicas", []panel{
		graph("Leads", "1 if a replica leads", unitNone,
			`max by (instance) (catalogd_leading{`+installation+`})`, "{{instance}}"),
		graph("Catalogs behind", "Catalogs of which a replica serves a stale digest, or none", unitNone,
			`sum by (instance) (catalogd_replica_behind{`+catalogs+`})`, "{{instance}}"),
		graph("Volume: used", "", unitBytes, `catalogd_storage_used_bytes{`+installation+`}`, "{{instance}}"),
		graph("Volume: free", "The smaller of the volume's and that of --storage-limit", unitBytes,
			`catalogd_storage_free_bytes{`+installation+`}`, "{{instance}}"),
	}},
	{"Process", []panel{
		graph("Memory", "Resident", unitBytes,
			`process_resident_memory_bytes{`+installation+`} and on (job, instance) catalogd_build_info`, "{{instance}}"),
		graph("Processor time", "Of one processor", unitPercent,
			`rate(process_cpu_seconds_total{`+installation+`}[$__rate_interval]) and on (job, instance) catalogd_build_info`, "{{instance}}"),
		graph("Reconciles", "Passes over catalogs, by result", unitPerSecond,
			`sum by (result) `+
				`(rate(controller_runtime_reconcile_total{`+installation+`, controller="catalogsource"}[$__rate_interval]))`, "{{result}}"),
		graph("Catalogs waiting for a worker", "", unitNone,
			`sum by (instance) (workqueue_depth{`+installation+`, controller="catalogsource"})`, "{{instance}}"),
	}},
}
