package main

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

const (
	alertsFile    = "monitoring/alerts.yaml"
	dashboardFile = "monitoring/dashboard.json"
)

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
	t.Parallel()
	promtool(t, "", "check", "rules", alertsFile)
	promtool(t, "", "test", "rules", "monitoring/alerts_test.yaml")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(program.ReadFile(t, alertsFile), -1) {
		names = append(names, m[1])
	}
	tests := program.ReadFile(t, "monitoring/alerts_test.yaml")
	for _, name := range names {
		program.WantTexts(t, tests, `alertname="`+name+`"`)
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
	if err := json.Unmarshal([]byte(program.ReadFile(t, dashboardFile)), &d); err != nil {
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
	program.Write(t, filepath.Join(dir, "trusted", "trial.crl"), string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})))
}

// TestMonitoringUsesMetricsThatExist checks the metrics of a running server with
// promtool, and that it has each metric that alerts and the dashboard use.
func TestMonitoringUsesMetricsThatExist(t *testing.T) {
	t.Parallel()
	k, s, alice := serveReadySite(t)
	k.runOK([]string{"backup", filepath.Join(t.TempDir(), "backup.db")})
	next := time.Now().Add(48 * time.Hour)
	writeCRL(t, k.dir, next)
	script := k.path("providers/simulated.prov")
	line := strings.TrimPrefix(regexp.MustCompile(`(?m)^exec .*$`).FindString(program.ReadFile(t, script)), "exec ")
	program.Write(t, script, "#!/bin/sh\n"+line+` | sed 's/"state":"ready"/&,"message":"its system does not answer"/g'`+"\n")
	if code, out := alice(s.url, "PerformOperationalAction", "restart"); code != 0 {
		t.Fatal(out)
	}
	wait.Until(t, "its provider says what is wrong", func() bool { _, out := alice(s.url, "Status"); return strings.Count(out, "does not answer") == 2 })
	var text string
	wait.Until(t, "all metrics", func() bool {
		alice(s.url, "Status")
		_, text = program.Get(t, s.admin+"/metrics")
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
	program.Write(t, file, rules)
	promtool(t, "", "check", "rules", file)
	names := regexp.MustCompile(`\b(patchbay|process)_[a-z_]+`)
	used := names.FindAllString(strings.Join(regexp.MustCompile(`(?m)^ *expr: .*$`).FindAllString(program.ReadFile(t, alertsFile), -1), " ")+rules, -1)
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
		{"patchbay_slivers_waiting", nil, 0},
		{"patchbay_slivers_late", nil, 0},
		{"patchbay_no_shows_total", nil, 0},
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
		if got := program.Metric(t, text, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	for name, least := range map[string]time.Duration{"patchbay_last_backup_timestamp_seconds": -time.Hour, `patchbay_certificate_expiry_timestamp_seconds`: 24 * time.Hour} {
		if got := program.Metric(t, text, name, map[bool]string{true: `file="server-ecdsa.pem"`}[least > 0]); got < float64(time.Now().Add(least).Unix()) {
			t.Errorf("%s is %v", name, got)
		}
	}
}
