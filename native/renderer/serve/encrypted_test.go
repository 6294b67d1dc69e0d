package serve

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"stellwerk/renderer/wire"
)

// Files as the sops command writes them, for a key that does not exist any more.
const (
	sealed = "ENC[AES256_GCM,data:wqoeWLZpvg==,iv:h0FH+j3iRgKwrrzdbU9IuRw+xwqH/EK1FGLvMpN4gcE=,tag:6QxYsMYoZs48ZPBNhm+Z3Q==,type:str]"
	sender = "age1s73qfdf447c4n7lneet8dywfu998un6tax6hdr22xwffmhxr7vtqwzwp4t"
	stamp  = "2026-11-28T14:19:21Z"
	yamlOf = "sops:\n    age:\n        - enc: x\n          recipient: " + sender + "\n    lastmodified: \"" + stamp +
		"\"\n    mac: " + sealed + "\n    version: 3.13.3\n"
	jsonOf = `{"data": "` + sealed + `", "sops": {"age": [{"enc": "x", "recipient": "` + sender + `"}], "lastmodified": "` +
		stamp + `", "mac": "` + sealed + `", "version": "3.13.3"}}`
	envOf = "PASSWORD=" + sealed + "\nsops_age__list_0__map_enc=x\nsops_age__list_0__map_recipient=" + sender +
		"\nsops_lastmodified=" + stamp + "\nsops_mac=" + sealed + "\nsops_version=3.13.3\n"
	iniOf = "[main]\nkey = " + sealed + "\n\n[sops]\nage__list_0__map_enc = x\nage__list_0__map_recipient = " + sender +
		"\nlastmodified = " + stamp + "\nmac = " + sealed + "\nversion = 3.13.3\n"
	secretOf = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: '" + sealed + "'}\n" + yamlOf
	chartOf  = "apiVersion: v2\nname: c\nversion: 1.0.0\n"
)

func generated(by, from string) string {
	return by + ":\n- {name: g, " + from + "}\n"
}

// encrypted are ways by which ciphertext comes into objects, each with the file that the message names.
var encrypted = map[string]struct {
	file  string
	files map[string]string
}{
	"a Secret manifest":            {"s.yaml", map[string]string{"s.yaml": secretOf}},
	"a ConfigMap manifest":         {"s.yaml", map[string]string{"s.yaml": strings.NewReplacer("Secret", "ConfigMap", "stringData", "data").Replace(secretOf)}},
	"a custom resource":            {"s.yaml", map[string]string{"s.yaml": strings.NewReplacer("v1", "rail.example.com/v1", "Secret", "Train", "stringData", "spec").Replace(secretOf)}},
	"a manifest without sealed":    {"s.yaml", map[string]string{"s.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {a: b}\n" + yamlOf}},
	"a JSON manifest":              {"s.yaml", map[string]string{"s.yaml": strings.Replace(jsonOf, `"data": "`, `"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "x": "`, 1)}},
	"an env file of a generator":   {"a.env", map[string]string{"a.env": envOf, "kustomization.yaml": generated("secretGenerator", "envs: [a.env]")}},
	"an env file of a ConfigMap":   {"a.env", map[string]string{"a.env": envOf, "kustomization.yaml": generated("configMapGenerator", "envs: [a.env]")}},
	"a YAML file of a generator":   {"a.conf", map[string]string{"a.conf": "a: " + sealed + "\n" + yamlOf, "kustomization.yaml": generated("secretGenerator", "files: [a.conf]")}},
	"a JSON file of a generator":   {"a.json", map[string]string{"a.json": jsonOf, "kustomization.yaml": generated("configMapGenerator", "files: [a.json]")}},
	"an INI file of a generator":   {"a.ini", map[string]string{"a.ini": iniOf, "kustomization.yaml": generated("secretGenerator", "files: [a.ini]")}},
	"a binary file of a generator": {"a.bin", map[string]string{"a.bin": jsonOf, "kustomization.yaml": generated("secretGenerator", "files: [a.bin]")}},
	"a file that a template reads": {"a.json", map[string]string{"a.json": jsonOf, "c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {x: {{ readFile \"a.json\" | toString | quote }}}\n"}},
	"a patch": {"p.yaml", map[string]string{
		"p.yaml": secretOf, "s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
		"kustomization.yaml": "resources: [s.yaml]\npatches: [{path: p.yaml}]\n"}},
	"a kustomization":          {"kustomization.yaml", map[string]string{"kustomization.yaml": "namePrefix: " + sealed + "\n" + yamlOf}},
	"the values of a chart":    {"values.yaml", map[string]string{"Chart.yaml": chartOf, "values.yaml": "a: " + sealed + "\n" + yamlOf}},
	"the values of a subchart": {"charts/d/values.yaml", map[string]string{"Chart.yaml": chartOf, "charts/d/Chart.yaml": strings.Replace(chartOf, "name: c", "name: d", 1), "charts/d/values.yaml": "a: " + sealed + "\n" + yamlOf}},
	"a template of a chart":    {"templates/s.yaml", map[string]string{"Chart.yaml": chartOf, "templates/s.yaml": secretOf}},
	"a file of a chart in base64": {"a.json", map[string]string{
		"Chart.yaml": chartOf, "a.json": jsonOf,
		"templates/s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {x: {{ .Files.Get \"a.json\" | b64enc }}}\n"}},
	"base64 inside of another text": {"templates/s.yaml", map[string]string{
		"Chart.yaml": chartOf, "a.json": jsonOf,
		"templates/s.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {x: 'Basic {{ print \"ab\" (.Files.Get \"a.json\") | b64enc }}'}\n"}},
	"a definition of a chart": {"crds/s.yaml", map[string]string{"Chart.yaml": chartOf, "crds/s.yaml": secretOf}},
}

func TestWhatSOPSEncryptedAndNobodyDecryptedIsRefused(t *testing.T) {
	p := start(t)
	for name, test := range encrypted {
		t.Run(name, func(t *testing.T) {
			named, unnamed := "Secret t/keys", ""
			for _, from := range []*string{&named, &unnamed, nil} {
				req := request(auto, "", test.files)
				req.Decryption = wire.Decryption{Keys: map[string][]byte{"age.key": []byte("AGE-SECRET-KEY-1CANARY")}, From: from}
				next := "Secret t/keys of spec.decryption has no key whose name ends in .agekey (age) or .asc (PGP); it has age.key"
				if from == &unnamed {
					next = "spec.decryption.secretRef"
				} else if from == nil {
					next = "sops decrypt --in-place"
				}
				message := p.ask(req)
				if message.Error == nil || message.Error.Kind != wire.DecryptFailed || message.Error.File != test.file ||
					!strings.Contains(message.Error.Message, next) || !strings.Contains(message.Error.Message, "SOPS") {
					t.Fatalf("%+v %+v", message.Error, message.Result)
				}
				if test.file != "templates/s.yaml" && !strings.Contains(message.Error.Message, test.file+" is encrypted for age") {
					t.Error(message.Error.Message)
				}
			}
		})
	}
}

func TestAKeyThatFitsNoFormatIsNoExcuse(t *testing.T) {
	p, named := start(t), "Secret t/keys"
	req := request(auto, "", map[string]string{"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: '" + sealed + "'}\n"})
	req.Decryption = wire.Decryption{Keys: map[string][]byte{"age.key": nil}, From: &named}
	p.refusal(req, wire.DecryptFailed, "Secret s has text that SOPS encrypted", "Encrypt the whole of s.yaml again")
}

func TestValuesAndVariablesThatSOPSEncryptedAreRefused(t *testing.T) {
	p, unnamed := start(t), ""
	chart := map[string]string{"Chart.yaml": chartOf}
	for name, values := range map[string]map[string]any{
		"a value": {"db": map[string]any{"password": sealed}}, "a list": {"db": []any{sealed}}, "base64": {"db": base64.StdEncoding.EncodeToString([]byte("a" + sealed))},
		"a whole file": {"db": "x", "sops": map[string]any{"mac": "x", "lastmodified": stamp}},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(auto, "", maps.Clone(chart))
			req.Values, req.Decryption.From = values, &unnamed
			p.refusal(req, wire.DecryptFailed, "values have", "spec.valuesFrom")
			req.Decryption.From = nil
			p.refusal(req, wire.DecryptFailed, "values have", "sops decrypt")
		})
	}
	req := request(auto, "", map[string]string{"s.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {a: \"${v}\"}\n"})
	req.PostBuild.Substitute = map[string]string{"v": sealed}
	p.refusal(req, wire.DecryptFailed, "ConfigMap s has text that SOPS encrypted")
}

func TestWhatMayCarryCiphertextIsRendered(t *testing.T) {
	p := start(t)
	object := func(apiVersion, kind, annotations string) string {
		return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: s, annotations: {" + annotations + "}}\nspec: {files: {a: '" + sealed + "'}}\n"
	}
	for name, files := range map[string]map[string]string{
		"a Blueprint":              {"b.yaml": object("core.cs.sap.com/v1alpha1", "Blueprint", "")},
		"a SopsSecret":             {"b.yaml": object("isindir.github.com/v1alpha3", "SopsSecret", "")},
		"an annotated object":      {"b.yaml": object("rail.example.com/v1", "Train", request("", "", nil).Prefix+"/keep-encrypted: 'true'")},
		"an unused encrypted file": {"a.env": envOf, ".secret.yaml": secretOf, "b.yaml": configMap("c")},
		"text about SOPS":          {"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {a: 'ENC[AES256_GCM,data:...], sops: mac', sops: x}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if made := p.result(request(auto, "", files)); len(made.Objects) != 1 {
				t.Error(made)
			}
		})
	}
}
