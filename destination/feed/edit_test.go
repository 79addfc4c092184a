package feed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const editFeed = `<feed xmlns="` + nsAtom + `" xmlns:report="` + nsReport + `" xmlns:gs="` + nsSheet + `">`

func readOneEdit(t *testing.T, in string) *Edit {
	t.Helper()
	_, entries := mustRead(t, editFeed+"<entry>"+in+"</entry></feed>")
	if len(entries) != 1 || entries[0].Edit == nil {
		t.Fatalf("no edit in %s", in)
	}
	sameAgain(t, entries[0])
	return entries[0].Edit
}

// The documented sample works as printed.
func TestResourceFinderSample(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("RESYNCD_SPEC_EXAMPLES")
	if dir == "" {
		t.Skip("RESYNCD_SPEC_EXAMPLES is not set")
	}
	doc, err := os.ReadFile(filepath.Join(dir, "resource-finder-sample.xml"))
	if err != nil {
		t.Fatal(err)
	}
	_, entries := mustRead(t, string(doc))
	if len(entries) != 1 || entries[0].Edit == nil {
		t.Fatalf("%d entries", len(entries))
	}
	e := entries[0].Edit
	if e.Subject != "paho.org/HealthC_ID/1234567" || e.Author != "tel:+50912345678" || !e.Observed.Equal(at("2010-06-29T15:27:39Z")) ||
		e.Type != "{http://schemas.google.com/report/2010}row" || len(e.Fields) != 23 || len(e.Odd) != 0 {
		t.Errorf("%+v", e)
	}
	r := Merge(e.Subject, []*Edit{e})
	for name, want := range map[string]string{"services": "ORTHOPEDICS,CARDIOLOGY,X_RAY", "commune": "Petit-Goâve", "available_beds": "55", "location": "18.3037,-72.8636", "can_pick_up_patients": "FALSE"} {
		if got := r.Fields[name]; got.Value != want || got.Author != e.Author || !got.Observed.Equal(e.Observed) {
			t.Errorf("%s is %+v", name, got)
		}
	}
	sameAgain(t, entries[0])
	if !strings.HasPrefix(entries[0].Key, digestKey) {
		t.Errorf("key %s", entries[0].Key)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	const start = `<author><uri>mailto:a@x.example</uri></author><report:subject>s</report:subject><report:observed>2026-01-02T03:04:05Z</report:observed>`
	row := func(fields string) string {
		return start + `<report:content type="t"><report:row>` + fields + `</report:row></report:content>`
	}
	for _, c := range []struct {
		name, in string
		fields   []Field
		odd      []string // parts of each remark
	}{
		{"values as they were received", row(`<gs:field name="b"> x &lt; <![CDATA[<y>]]><!-- c --> </gs:field><gs:field name="a">1</gs:field>`), []Field{{"a", "1"}, {"b", " x < <y> "}}, nil},
		{"empty erases", row(`<gs:field name="a"/><gs:field name="b"></gs:field><gs:field name="c">
			</gs:field><gs:field name="total_beds"/><gs:field name="services"/><gs:field name="location"/><gs:field name="category"/>`),
			[]Field{{"a", ""}, {"b", ""}, {"c", ""}, {"category", ""}, {"location", ""}, {"services", ""}, {"total_beds", ""}}, nil},
		{"typed and right", row(`<gs:field name="available_beds">-3</gs:field><gs:field name="services">LAB, X_RAY</gs:field><gs:field name="location"> 90 , -180.0 </gs:field><gs:field name="reachable_by_road">TRUE</gs:field>`),
			[]Field{{"available_beds", "-3"}, {"location", " 90 , -180.0 "}, {"reachable_by_road", "TRUE"}, {"services", "LAB, X_RAY"}}, nil},
		{"typed and wrong", row(`<gs:field name="available_beds">many</gs:field><gs:field name="category">TENT</gs:field><gs:field name="location">91,0</gs:field><gs:field name="can_pick_up_patients">yes</gs:field><gs:field name="services">LAB,,MAGIC</gs:field><gs:field name="unheard_of">x</gs:field>`),
			[]Field{{"available_beds", "many"}, {"can_pick_up_patients", "yes"}, {"category", "TENT"}, {"location", "91,0"}, {"services", "LAB,,MAGIC"}, {"unheard_of", "x"}},
			[]string{"available_beds", "can_pick_up_patients", "category", "location", "services"}},
		{"no number at all", row(`<gs:field name="location">NaN,Inf</gs:field><gs:field name="total_beds">1.5</gs:field>`), []Field{{"location", "NaN,Inf"}, {"total_beds", "1.5"}}, []string{"location", "total_beds"}},
		{"a field twice", row(`<gs:field name="a">1</gs:field><gs:field name="a">2</gs:field>`), []Field{{"a", "2"}}, []string{"twice"}},
		{"two rows", row(`<gs:field name="a">1</gs:field></report:row><report:row><gs:field name="b">2</gs:field>`), []Field{{"a", "1"}, {"b", "2"}}, []string{"2 report:row"}},
		{"two contents", row(``) + `<report:content><report:row><gs:field name="b">2</gs:field></report:row></report:content>`, []Field{{"b", "2"}}, []string{"2 report:content", "2 report:row"}},
		{"two subjects", row(``) + `<report:subject>t</report:subject><report:subject>s</report:subject>`, nil, []string{"another subject"}},
		{"no content", start, nil, []string{"0 report:content", "0 report:row"}},
		{"namespaced name", row(`<gs:field gs:name="a">1</gs:field>`), []Field{{"a", "1"}}, nil},
		{"no name", row(`<gs:field>1</gs:field>`), []Field{{"", "1"}}, []string{"without a name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := readOneEdit(t, c.in)
			if d := cmp.Diff(c.fields, e.Fields); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if len(e.Odd) != len(c.odd) {
				t.Fatalf("odd: %q, want %q", e.Odd, c.odd)
			}
			for i, part := range c.odd {
				if !strings.Contains(e.Odd[i], part) {
					t.Errorf("odd: %q, want %q", e.Odd[i], part)
				}
			}
			back, err := UnmarshalEdit(e.Marshal())
			if err != nil || back.Digest() != e.Digest() {
				t.Errorf("%v, stored %s", err, e.Marshal())
			}
			if d := cmp.Diff(e, back); d != "" {
				t.Errorf("stored (-want +got)\n%s", d)
			}
		})
	}
}

func TestObservedAndAuthor(t *testing.T) {
	t.Parallel()
	const rest = `<report:subject>s</report:subject><report:content><report:row/></report:content>`
	for _, c := range []struct {
		name, in, observed, author string
		odd                        int
	}{
		{"all well", `<author><uri> tel:+1 </uri></author><report:observed> 2026-01-02T03:04:05.1234567Z </report:observed>`, "2026-01-02T03:04:05.123456Z", "tel:+1", 0},
		{"another zone", `<author><uri>tel:+1</uri></author><report:observed>2026-01-02T03:04:05+02:00</report:observed>`, "2026-01-02T01:04:05Z", "tel:+1", 1},
		{"no zone", `<author><uri>tel:+1</uri></author><report:observed>2026-01-02T03:04:05</report:observed>`, "", "tel:+1", 1},
		{"no time", `<author><uri>tel:+1</uri></author><report:observed>yesterday</report:observed>`, "", "tel:+1", 1},
		{"before all time", `<author><uri>tel:+1</uri></author><report:observed>0000-01-01T00:00:00Z</report:observed>`, "", "tel:+1", 1},
		{"nothing", ``, "", "", 2},
		{"another scheme", `<author><uri>https://x.example/</uri></author><report:observed>2026-01-02T03:04:05Z</report:observed>`, "2026-01-02T03:04:05Z", "https://x.example/", 1},
		{"mail only", `<author><name>A</name><email>a@x.example</email></author><report:observed>2026-01-02T03:04:05Z</report:observed>`, "2026-01-02T03:04:05Z", "mailto:a@x.example", 1},
		{"id, title and updated as well", `<id>urn:r</id><title>T</title><updated>2027-01-01T00:00:00Z</updated><author><uri>tel:+1</uri></author><report:observed>2026-01-02T03:04:05Z</report:observed>`, "2026-01-02T03:04:05Z", "tel:+1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := readOneEdit(t, c.in+rest)
			if stamp(e.Observed) != c.observed || e.Author != c.author || len(e.Odd) != c.odd {
				t.Errorf("%s %q %q", stamp(e.Observed), e.Author, e.Odd)
			}
		})
	}
}

// An edit's key is that of the edit: an atom:id may be the record's.
func TestEditKeys(t *testing.T) {
	t.Parallel()
	one := `<entry><id>urn:r</id><report:subject>s</report:subject><report:observed>2026-01-02T03:04:05Z</report:observed></entry>`
	two := strings.Replace(one, ":05Z", ":06Z", 1)
	_, entries := mustRead(t, editFeed+one+two+strings.Replace(one, "<id>urn:r</id>", "<title>x</title>", 1)+"<entry><id>plain</id></entry></feed>")
	if entries[0].Key == entries[1].Key || entries[0].Key != entries[2].Key || entries[3].Edit != nil || entries[3].Key != "plain" {
		t.Errorf("keys %s", keys(entries))
	}
}

func TestDigestTellsApart(t *testing.T) {
	t.Parallel()
	base := func() *Edit {
		return &Edit{Subject: "s", Author: "a", Observed: at("2026-01-02T03:04:05Z"), Type: "t", Fields: []Field{{"n", "v"}}}
	}
	same := base()
	same.Observed = same.Observed.In(time.FixedZone("", 3600))
	same.Odd = []string{"x"}
	if same.Digest() != base().Digest() {
		t.Error("zone or remarks count")
	}
	for name, change := range map[string]func(*Edit){
		"subject":  func(e *Edit) { e.Subject = "t" },
		"author":   func(e *Edit) { e.Author = "" },
		"observed": func(e *Edit) { e.Observed = time.Time{} },
		"type":     func(e *Edit) { e.Type = "" },
		"value":    func(e *Edit) { e.Fields[0].Value = "" },
		"name":     func(e *Edit) { e.Fields[0].Name = "nv"; e.Fields[0].Value = "" },
		"more":     func(e *Edit) { e.Fields = append(e.Fields, Field{"o", ""}) },
		"none":     func(e *Edit) { e.Fields = nil },
	} {
		e := base()
		change(e)
		if e.Digest() == base().Digest() {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestUnmarshalEditErrors(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "{", `{"observed":"soon"}`, `[]`} {
		if e, err := UnmarshalEdit([]byte(in)); err == nil {
			t.Errorf("%q is %+v", in, e)
		}
	}
}
