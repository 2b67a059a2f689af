package rspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	plan "patchbay/rspec/step"
)

func TestServices(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		rule, in string
		want     any    // a step, or nil if it is only copied
		remark   string // if it is only copied
	}{
		{"over http", `<install url="http://example.org/a.tgz" install_path="/local"/>`, plan.Step{Kind: plan.Install, URL: "http://example.org/a.tgz", InstallPath: "/local"}, ""},
		{"over https, with a port and a query", `<install url=" HTTPS://example.org:8443/a?b=1&amp;c=2 " install_path="/"/>`, plan.Step{Kind: plan.Install, URL: "HTTPS://example.org:8443/a?b=1&c=2", InstallPath: "/"}, ""},
		{"data", `<install url="data:application/gzip;base64,AAAA" install_path="~"/>`, plan.Step{Kind: plan.Install, URL: "data:application/gzip;base64,AAAA", InstallPath: "~"}, ""},
		{"below the home", `<install url="http://h/a" install_path="~/a b"/>`, plan.Step{Kind: plan.Install, URL: "http://h/a", InstallPath: "~/a b"}, ""},
		{"file type", `<install url="http://h/a" install_path="/x" file_type="tar.gz"/>`, plan.Step{Kind: plan.Install, URL: "http://h/a", InstallPath: "/x", FileType: "tar.gz"}, ""},
		{"over ftp", `<install url="ftp://example.org/a.tgz" install_path="/local"/>`, nil, `the url "ftp://example.org/a.tgz"; write an http, https or data URL`},
		{"from the site's catalogue", `<install url="catalogue:web-1.0.tar.gz" install_path="/"/>`, plan.Step{Kind: plan.Install, URL: "catalogue:web-1.0.tar.gz", InstallPath: "/"}, ""},
		{"from the catalogue, with a digest", `<install url="catalogue:web.tar.gz#` + strings.Repeat("0", 64) + `" install_path="/"/>`, nil, "write an http, https or data URL"},
		{"from the catalogue, with a path", `<install url="catalogue:../web.tar.gz" install_path="/"/>`, nil, "write an http, https or data URL"},
		{"from a file", `<install url="/proj/a.tgz" install_path="/local"/>`, nil, "write an http, https or data URL"},
		{"http without a host", `<install url="http:///a" install_path="/local"/>`, nil, "write an http, https or data URL"},
		{"no URL at all", `<install url="http://[::1/a" install_path="/local"/>`, nil, "write an http, https or data URL"},
		{"data without any", `<install url="data:text/plain" install_path="/local"/>`, nil, "write an http, https or data URL"},
		{"without url", `<install install_path="/local"/>`, nil, "write an http, https or data URL"},
		{"a relative path", `<install url="http://h/a" install_path="local"/>`, nil, `the install_path "local"; use an absolute path`},
		{"another's home", `<install url="http://h/a" install_path="~alice/x"/>`, nil, "use an absolute path"},
		{"without path", `<install url="http://h/a"/>`, nil, "use an absolute path"},
		{"a path that no system takes", `<install url="http://h/a" install_path="/` + long + `"/>`, nil, "use an absolute path"},
		{"sh", `<execute shell="sh" command="a"/>`, plan.Step{Kind: plan.Execute, Shell: "sh", Command: "a"}, ""},
		{"bash by its path", `<execute shell="/bin/bash" command=" a &amp;&#10;b "/>`, plan.Step{Kind: plan.Execute, Shell: "bash", Command: " a &\nb "}, ""},
		{"sh by its path", `<execute shell=" /bin/sh " command="a"/>`, plan.Step{Kind: plan.Execute, Shell: "sh", Command: "a"}, ""},
		{"another shell", `<execute shell="/usr/bin/perl" command="a"/>`, nil, `the shell "/usr/bin/perl"; use sh or bash`},
		{"without shell", `<execute command="a"/>`, nil, "use sh or bash"},
		{"without command", `<execute shell="sh"/>`, nil, "without a command"},
		{"a blank command", `<execute shell="sh" command=" &#10;"/>`, nil, "without a command"},
		{"of another namespace", `<install xmlns="urn:x" url="http://h/a" install_path="/"/>`, nil, ""},
	} {
		r := mustParse(t, request(`<node client_id="n"><services>`+tt.in+`</services></node>`), ours())
		var got any
		if steps := r.Nodes[0].Services.Steps; len(steps) > 0 {
			got = steps[0].Step
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
		}
		remarks := strings.Join(Lines(r.Notices), "; ")
		if tt.remark == "" && remarks != "" || !strings.Contains(remarks, tt.remark) || tt.remark != "" && !strings.Contains(remarks, "this step will be ignored") {
			t.Errorf("%s: remarks %q, want %q", tt.rule, remarks, tt.remark)
		}
	}
}
