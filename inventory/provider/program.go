package provider

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxServiceWords limits the program and the arguments of a service.
const maxServiceWords = 64

// applyService checks the command of the service. A site runs it only if it is in NAME.yaml, see
// ServiceOf.
func (p *Provider) applyService(m *metadata) error { return checkService(m.Service) }

func checkService(words []string) error {
	switch {
	case words == nil:
		return nil
	case len(words) == 0 || !filepath.IsAbs(words[0]):
		return errors.New("service must begin with the absolute path of a program, such as [/usr/bin/rack, up, NAME.yaml]")
	case len(words) > maxServiceWords || strings.ContainsRune(strings.Join(words, ""), 0):
		return fmt.Errorf("service has more than %d words, or a word that cannot be an argument", maxServiceWords)
	}
	return nil
}

// ServiceOf returns the command of the service in the metadata file NAME.yaml, or nil if the file
// names none. The argument NAME.yaml stands for the path of that file. ServiceOf runs no program.
func ServiceOf(file string) ([]string, error) {
	text, err := readMetadataFile(file)
	if err != nil || text == nil {
		return nil, err
	}
	m, err := parseMetadata(text)
	if errors.Is(err, errNoMetadata) {
		return nil, nil
	}
	if err == nil {
		err = checkService(m.Service)
	}
	if err != nil || m.Service == nil {
		return nil, err
	}
	words := append([]string{}, m.Service...)
	for i := range words[1:] {
		if words[i+1] == filepath.Base(file) {
			words[i+1] = file
		}
	}
	return words, nil
}

// Settings is what the present settings of a provider mean for the site. A provider with a service
// reports it in its answer to describe, under the key settings. All keys are optional.
type Settings struct {
	// Instance names what the service manages. A reload may not change it.
	Instance string `yaml:"instance,omitempty"`
	// Outbound is whether nodes reach the outside network; nil if unknown.
	Outbound    *bool    `yaml:"outbound,omitempty"`
	SharedVLANs []string `yaml:"shared_vlans,omitempty"`
	// LoginPorts is the maximum number of nodes with a login; 0 for no limit.
	LoginPorts int `yaml:"login_ports,omitempty"`
	// Images are the images that nodes can have; empty if unknown.
	Images []string `yaml:"images,omitempty"`
	// HostImage is the image whose nodes have the programs of this host; "" for none.
	HostImage string `yaml:"host_image,omitempty"`
	// Outdated means that the service runs with older settings.
	Outdated bool `yaml:"outdated,omitempty"`
	// Help tells operators what to do if the service does not run.
	Help string `yaml:"help,omitempty"`
	// Problems are mistakes in the settings. The provider cannot be used then.
	Problems []Problem `yaml:"problems,omitempty"`
}

// Problem is a mistake in NAME.yaml.
type Problem struct {
	Line    int    `yaml:"line,omitempty"` // 0 for the whole file
	Message string `yaml:"message"`
}

// Describe runs the action describe. It returns the settings and the metadata of the answer.
func (p *Provider) Describe(ctx context.Context) (s Settings, metadata string, err error) {
	out, err := p.run(ctx, call{action: "describe", limit: p.describe, answer: maxDescribe})
	if err != nil {
		return s, "", err
	}
	var answer struct{ Settings Settings }
	if err := yaml.Unmarshal(out, &answer); err != nil {
		return s, "", errors.New(plainYAML(err))
	}
	answer.Settings.Help = clean(answer.Settings.Help, maxMessage)
	for i := range answer.Settings.Problems {
		answer.Settings.Problems[i].Message = clean(answer.Settings.Problems[i].Message, maxMessage)
	}
	metadata, _, _ = strings.Cut(string(out), "\nsettings:")
	return answer.Settings, metadata, nil
}
