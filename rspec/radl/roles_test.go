package radl

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/inventory"
)

// TestAnsibleInstallsRoles runs the step that installs roles, with the real ansible-galaxy.
func TestAnsibleInstallsRoles(t *testing.T) {
	require.Tool(t, "ansible-galaxy")
	require.Tool(t, "git")
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "set -e\n"+script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run(`mkdir -p web/tasks web/meta tools roles collections
		echo '- debug: msg=web' >web/tasks/main.yml
		printf 'galaxy_info: {author: alice, description: a page, license: none, min_ansible_version: "2.9"}\n' >web/meta/main.yml
		tar -czf web.tar.gz web
		git init -q web
		git -C web add .
		git -C web -c user.name=alice -c user.email=alice@example.org commit -q -m first
		touch tools/README.md
		printf 'namespace: alice\nname: tools\nversion: 1.0.0\nreadme: README.md\nauthors: [alice]\n' >tools/galaxy.yml
		ansible-galaxy collection build tools`)
	site := &inventory.Inventory{OutsideAccess: inventory.No, Galaxy: map[string]string{
		"alice.web": server.URL + "/web.tar.gz", "alice.tools": server.URL + "/alice-tools-1.0.0.tar.gz", "https://example.org/web.git": "git+file://" + dir + "/web",
	}}
	c := &compiler{o: Options{Site: site}}
	for _, application := range []string{"ansible.roles.alice.web", "ansible.roles.https://example.org/web.git|from-git", "ansible.roles." + server.URL + "/web.tar.gz|from-url", "ansible.collections.alice.tools"} {
		r, ok := roleOf(application)
		if !ok {
			t.Fatalf("%s is no role", application)
		}
		c.roles = append(c.roles, r)
	}
	script := string(rolesStep(site, c.roles).Body)
	run(strings.NewReplacer(rolesFolder, filepath.Join(dir, "roles"), collectionsFolder, filepath.Join(dir, "collections"), "HOME=/root", "HOME="+dir).Replace(script))
	for _, file := range []string{"roles/alice.web/tasks/main.yml", "roles/from-git/tasks/main.yml", "roles/from-url/tasks/main.yml", "collections/ansible_collections/alice/tools/MANIFEST.json"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%v\n%s", err, script)
		}
	}
}
