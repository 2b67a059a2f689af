package userfolder

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

// AggregateName is the file in a user's folder that names the aggregate.
const AggregateName = "aggregate.yaml"

// Aggregate is the content of aggregate.yaml.
type Aggregate struct {
	// URL has the path of a version: https://HOST:PORT/am/3.0.
	URL string
	// CA is a file with the accepted certificates of the server; "" accepts any server.
	CA string
	// Authority is the URL of the authority where the user has logged in, https://HOST:PORT; "" for
	// none.
	Authority string
}

// ReadAggregate returns an error that wraps fs.ErrNotExist if the folder has no
// aggregate.yaml.
func ReadAggregate(dir string) (a Aggregate, err error) {
	const most = 1 << 20 // bytes
	file := filepath.Join(dir, AggregateName)
	text, err := yamlfile.Load(file, most)
	if err != nil {
		return a, err
	}
	r := &yamlfile.Reader{File: file}
	if doc := r.Document(text); doc != nil {
		r.Fields(doc.Content[0], "the file", []string{"url", "ca", "authority"}, func(key string, n *yaml.Node) {
			switch text := r.Text(n, key); {
			case key == "url":
				if a.URL = text; !strings.HasPrefix(text, "https://") {
					r.Wrong(n, "url must be like https://am.example.org:8443/am/3.0")
				}
			case key == "authority":
				if a.Authority = strings.TrimSuffix(text, "/"); !strings.HasPrefix(text, "https://") {
					r.Wrong(n, "authority must be like https://am.example.org:8443")
				}
			case text == "":
			case !filepath.IsLocal(text):
				r.Wrong(n, "ca must name a file in this folder, such as server-ca.pem")
			default:
				a.CA = filepath.Join(dir, text)
			}
		})
		if a.URL == "" && r.Mistakes() == 0 {
			r.Missing(nil, AggregateName, "url")
		}
	}
	return a, r.Err()
}
