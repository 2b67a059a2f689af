package lxd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"patchbay/inventory/node/inside"
	"patchbay/inventory/provider"
)

// A template is a stopped instance with an image and the program. Nodes are copies of the template
// on their member, so the storage shares its files; to push the program into each node takes longer
// than all else.
const (
	templatePrefix = instancePrefix + "template-"
	keyTemplate    = "user.patchbay.template" // the template is complete; its value is the image's name
)

func (i *instance) isTemplate() bool { return strings.HasPrefix(i.Name, templatePrefix) }

// executable returns this executable, which runs in the nodes, too.
var executable = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/self/exe") })

// template returns the name of the template for an image on a member. It makes the template if it
// is missing, and then removes those of other versions of the image or the program.
func (w *worker) template(ctx context.Context, m image, on member, clustered bool) (string, error) {
	lock, _ := w.templating.LoadOrStore(on.Name, new(sync.Mutex))
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	program, err := executable()
	if err != nil {
		return "", err
	}
	fingerprint, err := w.client.fingerprint(ctx, m)
	if err != nil {
		return "", fmt.Errorf("the image %s: %w", m.Name, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %x", on.Name, fingerprint, w.Pool, sha256.Sum256(program)))
	name := fmt.Sprintf("%s%x", templatePrefix, sum[:8])
	if _, known := w.templates.Load(name); known {
		return name, nil
	}
	i, err := w.client.instance(ctx, name)
	for err == nil && i != nil && i.Config[keyTemplate] == "" { // half-made
		if err = w.remove(ctx, i); err == errAgain {
			i, err = w.client.instance(ctx, name)
		}
	}
	if err == nil && i == nil {
		err = w.createTemplate(ctx, name, m, fingerprint, target(on, clustered))
	}
	if err != nil {
		return "", err
	}
	w.templates.Store(name, true)
	w.removeTemplates(ctx, m, on, name)
	return name, nil
}

// createTemplate makes a template: an instance with the image, the program and its boot service. At last it marks the
// template as complete.
func (w *worker) createTemplate(ctx context.Context, name string, m image, fingerprint string, query url.Values) error {
	_, err := w.client.do(ctx, request{method: http.MethodPost, path: "instances", query: query, body: map[string]any{
		"name": name, "type": "container", "profiles": []string{}, "ephemeral": false, "description": "Patchbay: template of nodes with the image " + m.Name,
		"config":  map[string]string{"security.nesting": "false", "security.privileged": "false", "cluster.evacuate": "stop"},
		"devices": map[string]any{"root": map[string]string{"type": "disk", "path": "/", "pool": w.Pool}},
		"source":  map[string]string{"type": "image", "fingerprint": fingerprint},
	}})
	if err != nil {
		return fmt.Errorf("the template of nodes cannot be created: %w", err)
	}
	program, err := executable()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		path, kind, mode string
		content          []byte
	}{
		{inside.Program, "file", "0755", program},
		{inside.ServiceFile, "file", "0644", []byte(inside.Service)},
		{inside.ServiceLink, "symlink", "0777", []byte(inside.ServiceFile)},
		{inside.DropInFile, "file", "0644", []byte(inside.DropIn)},
	} {
		if err := w.client.makeFolder(ctx, name, path.Dir(file.path)); err != nil {
			return err
		}
		if err := w.client.push(ctx, name, file.path, file.kind, file.mode, file.content); err != nil {
			return err
		}
	}
	return w.client.patch(ctx, name, map[string]string{keyTemplate: m.Name}, nil)
}

// removeTemplates removes the member's templates for the image, except one. Copies do not need their
// template. What cannot be removed now is removed after the next change.
func (w *worker) removeTemplates(ctx context.Context, m image, on member, except string) {
	all, err := w.client.instances(ctx)
	if err != nil {
		return
	}
	for k := range all {
		i := &all[k]
		if !i.isTemplate() || i.Name == except || i.Config[keyTemplate] != m.Name || i.Location != on.Name && i.Location != "none" {
			continue
		}
		if err := w.remove(ctx, i); err != errAgain {
			w.logf("%s: %v", i.Name, err)
		}
	}
}

// fingerprint returns the fingerprint of the image in the cluster.
func (c *client) fingerprint(ctx context.Context, m image) (string, error) {
	if m.Alias == "" {
		return m.Fingerprint, nil
	}
	var alias struct {
		Target string `json:"target"`
	}
	err := c.get(ctx, "images/aliases/"+url.PathEscape(m.Alias), nil, &alias)
	if isStatus(err, http.StatusNotFound) {
		return "", provider.Refuse(provider.Unknown, "the cluster has no image with the alias %s", m.Alias)
	}
	return alias.Target, err
}
