package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

const (
	alertsFile    = "monitoring/alerts.yaml"
	dashboardFile = "monitoring/dashboard.json"
)

// metric returns the sum of the values of a metric in the text of /metrics that have all
// these labels, each NAME="VALUE". It fails without the metric.
func metric(t testing.TB, text, name string, labels ...string) (sum float64) {
	t.Helper()
	found := false
lines:
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("no metric %s with %v in:\n%s", name, labels, text)
	}
	return sum
}

// promtool runs promtool, and returns its output.
func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(require.Tool(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestAlertRulesFireWhenTheyShould(t *testing.T) {
	promtool(t, "", "check", "rules", alertsFile)
	promtool(t, "", "test", "rules", "monitoring/alerts_test.yaml")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(readFile(t, alertsFile), -1) {
		names = append(names, m[1])
	}
	tests := readFile(t, "monitoring/alerts_test.yaml")
	for _, name := range names {
		wantTexts(t, tests, `alertname="`+name+`"`)
	}
	if len(names) < 10 {
		t.Errorf("only %d alerts were found", len(names))
	}
}

// dashboardQueries returns the queries of the dashboard, with its variables replaced.
func dashboardQueries(t *testing.T) (list []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr))
		}
	}
	return list
}

// serveWith serves a site in this process, with a changed configuration.
func serveWith(t *testing.T, dir string, change func(*site.Config)) *serverProcess {
	t.Helper()
	config, err := site.ReadConfig(filepath.Join(dir, "patchbay.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	s := &serverProcess{dir: dir, out: new(wait.Buffer)}
	ctx, cancel := context.WithCancel(context.Background())
	served, err := site.Open(ctx, config, config.Log.New(s.out))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	m := listeningLine.FindStringSubmatch(served.Announcement())
	s.url, s.admin = m[1], m[2]
	ended := make(chan error, 1)
	go func() { ended <- served.Run(ctx, nil) }()
	s.stop = sync.OnceValue(func() int {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the site ended with %v", err)
			return 1
		}
		return 0
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// remoteMetrics waits for the address of the metrics listener for other hosts, and
// returns it.
func (s *serverProcess) remoteMetrics(t *testing.T) (address string) {
	t.Helper()
	told := regexp.MustCompile(`metrics are served to other hosts" address=(\S+)`)
	wait.Until(t, "the listener for monitors", func() bool {
		m := told.FindStringSubmatch(s.out.String())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return address
}

// writeToken writes and returns the token of a site.
func writeToken(t *testing.T, dir string) (token string) {
	t.Helper()
	token = strings.Repeat("0123456789abcdef", 4)
	if err := os.WriteFile(filepath.Join(dir, "metrics.token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return token
}

// writeCRL writes an empty CRL of the site's trial authority.
func writeCRL(t *testing.T, dir string, next time.Time) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "authority", "authority.pem"), filepath.Join(dir, "authority", "authority.key"))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: next},
		pair.Leaf, pair.PrivateKey.(crypto.Signer))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "trusted", "trial.crl"), string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})))
}

// addFailureSwitch wraps the simulated provider of a site in a script. While the file
// dead exists, each call fails; while the file hang exists, calls do not end.
func addFailureSwitch(t *testing.T, dir string) (file func(name string, there bool)) {
	t.Helper()
	folder := filepath.Join(dir, "providers")
	edit(t, filepath.Join(folder, "simulated.prov"), "#!/bin/sh\n", "#!/bin/sh\nwhile [ -e hang ]; do sleep 0.1; done\nif [ -e dead ]; then exit 1; fi\n")
	return func(name string, there bool) {
		t.Helper()
		path := filepath.Join(folder, name)
		if there {
			write(t, path, "")
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// prometheus is a Prometheus server that scrapes a site.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus scrapes a site over TLS with its token, and evaluates the alert rules.
func startPrometheus(t *testing.T, s *serverProcess) *prometheus {
	t.Helper()
	program, dir := require.Tool(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: patchbay
    scheme: https
    authorization: {credentials_file: %q}
    tls_config: {ca_file: %q, server_name: localhost}
    static_configs: [{targets: [%q]}]
`, rules, filepath.Join(s.dir, "metrics.token"), filepath.Join(s.dir, "server-ecdsa.pem"), s.remoteMetrics(t)))
	promtool(t, "", "check", "config", filepath.Join(dir, "prometheus.yml"))
	l, err := net.Listen("tcp", "127.0.0.1:0") // Prometheus does not report a chosen port
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	log := new(wait.Buffer)
	cmd := exec.Command(program, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t, "http://" + address}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log)
		}
	})
	wait.Until(t, "prometheus has scraped the site", func() bool { return p.hasResult(`up{job="patchbay"} == 1`) })
	return p
}

// hasResult reports whether a query has a result.
func (p *prometheus) hasResult(query string) bool {
	p.t.Helper()
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return false // it is starting
	}
	defer resp.Body.Close()
	var answer struct{ Data struct{ Result []any } }
	text, _ := io.ReadAll(resp.Body)
	if json.Unmarshal(text, &answer) != nil {
		return false
	}
	return len(answer.Data.Result) > 0
}

// TestMetricsShowFailingProvider proves that metrics, /readyz, the alert, Status and
// patchbay slivers show a provider that fails or hangs, and its return, without any call.
// The site polls its providers more often than usual.
func TestMetricsShowFailingProvider(t *testing.T) {
	require.Tool(t, "prometheus")
	k, s, alice := serveReadySite(t)
	if code := s.stop(); code != 0 {
		t.Fatal(s.out)
	}
	file := addFailureSwitch(t, k.dir)
	writeToken(t, k.dir)
	s = serveWith(t, k.dir, func(c *site.Config) {
		c.PollProviders = time.Second
		c.Metrics = site.MetricsConfig{Listen: "127.0.0.1:0", TokenFile: k.path("metrics.token")}
	})
	p := startPrometheus(t, s)
	const firing = `ALERTS{alertname="PatchbayProviderDown",alertstate="firing",provider="simulated"}`
	for _, trouble := range []string{"dead", "hang"} {
		if _, out := alice(s.url, "Status"); strings.Contains(out, "has not answered") {
			t.Fatalf("before it is %s, Status says:\n%s", trouble, out)
		}
		file(trouble, true)
		wait.Until(t, "the alert when it is "+trouble, func() bool { return p.hasResult(firing) })
		if status, out := get(t, s.admin+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(out, "not ready: provider simulated has not answered since 20") {
			t.Errorf("%s: readyz answers %d %s", trouble, status, out)
		}
		_, text := get(t, s.admin+"/metrics")
		if up := metric(t, text, "patchbay_provider_up", `provider="simulated"`); up != 0 {
			t.Errorf("%s: provider_up is %v", trouble, up)
		}
		if failures := metric(t, text, "patchbay_provider_call_failures_total", `action="get"`); trouble == "dead" && failures == 0 {
			t.Error("no call has failed")
		}
		const said = "its provider simulated has not answered since 20"
		if _, out := alice(s.url, "Status"); strings.Count(out, said) != 2 || strings.Count(out, "geni_ready") != 2 {
			t.Errorf("%s: Status says:\n%s", trouble, out)
		}
		k.runOK([]string{"slivers"}, "its provider simulated has not answered")
		file(trouble, false)
		wait.Until(t, "the end of the alert", func() bool { return !p.hasResult(firing) })
		wait.Until(t, "it is ready again", func() bool { status, _ := get(t, s.admin+"/readyz"); return status == http.StatusOK })
	}
	wantTexts(t, s.out.String(), "a provider does not answer", "a provider answers again")
}

// TestMonitoringUsesMetricsThatExist checks the metrics of a running server with
// promtool, and that it has each metric that alerts and the dashboard use.
func TestMonitoringUsesMetricsThatExist(t *testing.T) {
	k, s, alice := serveReadySite(t)
	k.runOK([]string{"backup", filepath.Join(t.TempDir(), "backup.db")})
	next := time.Now().Add(48 * time.Hour)
	writeCRL(t, k.dir, next)
	script := k.path("providers/simulated.prov")
	line := strings.TrimPrefix(regexp.MustCompile(`(?m)^exec .*$`).FindString(readFile(t, script)), "exec ")
	write(t, script, "#!/bin/sh\n"+line+` | sed 's/"state":"ready"/&,"message":"its system does not answer"/g'`+"\n")
	if code, out := alice(s.url, "PerformOperationalAction", "restart"); code != 0 {
		t.Fatal(out)
	}
	wait.Until(t, "its provider says what is wrong", func() bool { _, out := alice(s.url, "Status"); return strings.Count(out, "does not answer") == 2 })
	var text string
	wait.Until(t, "all metrics", func() bool {
		alice(s.url, "Status")
		_, text = get(t, s.admin+"/metrics")
		return strings.Contains(text, "\npatchbay_crl_next_update_timestamp_seconds{") && strings.Contains(text, "\npatchbay_orphans{")
	})
	if out := promtool(t, text, "check", "metrics"); out != "" {
		t.Errorf("promtool says of the metrics: %s", out)
	}
	exists := func(name string) bool {
		return strings.Contains(text, "\n"+name+" ") || strings.Contains(text, "\n"+name+"{")
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, query := range dashboardQueries(t) {
		rules += fmt.Sprintf("  - {record: query%d, expr: %q}\n", i, query)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	write(t, file, rules)
	promtool(t, "", "check", "rules", file)
	names := regexp.MustCompile(`\b(patchbay|process)_[a-z_]+`)
	used := names.FindAllString(strings.Join(regexp.MustCompile(`(?m)^ *expr: .*$`).FindAllString(readFile(t, alertsFile), -1), " ")+rules, -1)
	slices.Sort(used)
	used = slices.Compact(used)
	for _, name := range used {
		if !exists(name) {
			t.Errorf("there is no metric %s", name)
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d names were found", len(used))
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"patchbay_slivers", []string{`provider="simulated"`, `state="ready"`}, 2},
		{"patchbay_slivers", nil, 2},
		{"patchbay_slivers_degraded", []string{`provider="simulated"`}, 2},
		{"patchbay_slices", nil, 1},
		{"patchbay_tasks", nil, 0},
		{"patchbay_task_oldest_seconds", nil, 0},
		{"patchbay_components", nil, 24},
		{"patchbay_components", []string{`state="held"`}, 1},
		{"patchbay_capacity", []string{`resource="slots"`}, 60},
		{"patchbay_capacity_used", []string{`resource="slots"`}, 2},
		{"patchbay_capacity", []string{`resource="memory_bytes"`}, 256 << 30},
		{"patchbay_provider_up", []string{`provider="simulated"`}, 1},
		{"patchbay_crl_next_update_timestamp_seconds", []string{`file="trusted/trial.crl"`}, float64(next.Unix())},
		{"patchbay_build_info", []string{`version="` + site.SoftwareVersion() + `"`, `goversion="go`}, 1},
	} {
		if got := metric(t, text, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	for name, least := range map[string]time.Duration{"patchbay_last_backup_timestamp_seconds": -time.Hour, `patchbay_certificate_expiry_timestamp_seconds`: 24 * time.Hour} {
		if got := metric(t, text, name, map[bool]string{true: `file="server-ecdsa.pem"`}[least > 0]); got < float64(time.Now().Add(least).Unix()) {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// TestMetricsForOtherHosts proves that the listener for other hosts serves only metrics,
// and only with the configured token or certificate.
func TestMetricsForOtherHosts(t *testing.T) {
	dir := newSiteWith(t, []string{"user", "alice"})
	token, stranger := writeToken(t, dir), filepath.Join(t.TempDir(), "stranger")
	if code, out := runCommand(t, "init", "--authority", "other.example.org", "--listen", "127.0.0.1:0", stranger); code != 0 {
		t.Fatal(out)
	}
	alice, err := tls.LoadX509KeyPair(filepath.Join(dir, "users/alice/alice-cert.pem"), filepath.Join(dir, "users/alice/alice-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := tls.LoadX509KeyPair(filepath.Join(stranger, "server-ecdsa.pem"), filepath.Join(stranger, "server-ecdsa-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(readFile(t, filepath.Join(dir, "server-ecdsa.pem"))))
	ask := func(address, path, authorization string, certificates ...tls.Certificate) int {
		t.Helper()
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if path == "/metrics" && (resp.StatusCode == http.StatusOK) != bytes.Contains(text, []byte("patchbay_trust_anchors 1")) {
			t.Errorf("%d with %.200s", resp.StatusCode, text)
		}
		return resp.StatusCode
	}
	for _, c := range []struct {
		name          string
		token, ca     bool
		path          string
		authorization string
		certificates  []tls.Certificate
		want          int // 0 for no answer
	}{
		{"TokenIsGood", true, false, "/metrics", "Bearer " + token, nil, 200},
		{"HealthToo", true, false, "/healthz", "Bearer " + token, nil, 200},
		{"ReadinessToo", true, false, "/readyz", "Bearer " + token, nil, 200},
		{"NoOperations", true, false, "/slivers", "Bearer " + token, nil, 404},
		{"NoManifests", true, false, "/manifest", "Bearer " + token, nil, 404},
		{"NoToken", true, false, "/metrics", "", nil, 401},
		{"NoTokenForHealth", true, false, "/healthz", "", nil, 401},
		{"WrongToken", true, false, "/metrics", "Bearer " + token[1:], nil, 401},
		{"EmptyToken", true, false, "/metrics", "Bearer ", nil, 401},
		{"OtherScheme", true, false, "/metrics", token, nil, 401},
		{"ACertificateIsNoToken", true, false, "/metrics", "", []tls.Certificate{alice}, 401},
		{"CertificateIsGood", false, true, "/metrics", "", []tls.Certificate{alice}, 200},
		{"NoCertificate", false, true, "/metrics", "Bearer " + token, nil, 0},
		{"CertificateOfAnother", false, true, "/metrics", "", []tls.Certificate{other}, 0},
		{"Both", true, true, "/metrics", "Bearer " + token, []tls.Certificate{alice}, 200},
		{"BothWithoutToken", true, true, "/metrics", "", []tls.Certificate{alice}, 401},
		{"BothWithoutCertificate", true, true, "/metrics", "Bearer " + token, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := metricsSite(t, dir, c.token, c.ca)
			if got := ask(s.remoteMetrics(t), c.path, c.authorization, c.certificates...); got != c.want {
				t.Errorf("answered %d, want %d", got, c.want)
			}
			s.stop()
		})
	}
}

// metricsSite serves a site whose metrics other hosts can read with a token, a
// certificate or both.
func metricsSite(t *testing.T, dir string, token, ca bool) *serverProcess {
	t.Helper()
	return serveWith(t, dir, func(c *site.Config) {
		c.Metrics.Listen = "127.0.0.1:0"
		if token {
			c.Metrics.TokenFile = filepath.Join(dir, "metrics.token")
		}
		if ca {
			c.Metrics.ClientCA = filepath.Join(dir, "authority", "authority.pem")
		}
	})
}
