package callback_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rules says which test holds us to which rule of a subscriber, from the request on (websub.md 3.2 to 3.9, 7 and 9;
// discovery is tested in destination). Not here are S-26, which no key configures, and S-66 and S-71, which are the
// engine's.
var rules = map[string]string{
	"S-20": "TestOldHubs TestEncodeHubForm", "S-21": "TestConformanceFeatures", "S-22": "TestMangledCallbacks",
	"S-23": "TestOldHubs TestVerificationWhileAsking TestNoStoreNoRequest", "S-24": "TestConformanceFeatures TestWarnsAboutSecret",
	"S-25": "TestOldHubs",

	"S-30 202, 204, 200": "TestOldHubs TestAssumedLease", "S-30 307, 308": "TestRedirectedRequest", "S-30 301, 302, 303": "TestRedirectedRequest TestRedirects",
	"S-30 429, 503": "TestHubIsBusy TestRetryAfter", "S-30 4xx": "TestOldHubs TestLadder", "S-30 an error after our 2xx": "TestOldHubs TestRefusalAfterConfirmation",
	"S-30 never verified": "TestNeverVerifies TestUnverified",

	"S-31": "TestConformance TestVerifyTable", "S-32": "TestConformance TestAnswers", "S-33": "TestAnswers TestOldHubs", "S-34": "TestAnswers TestValidChallenge",
	"S-35": "TestUnaskedVerification TestVerifiedTwice", "S-36": "TestVerificationDoesNotWait", "S-37": "TestUnsubscribing",
	"S-38": "TestForgedVerification TestVerifyTable", "S-39": "TestMangledCallbacks TestParseVerification",

	"S-40": "TestDeniedAnyTime", "S-41": "TestDeniedAnyTime TestAnswers", "S-42": "TestDeniedAnyTime TestDenied",

	"S-50": "TestLeaseAsGranted", "S-51": "TestUnaskedVerification TestRenewalFails", "S-52": "TestRenewalInPlace TestRotation",
	"S-53": "TestLeaseAsGranted", "S-54": "TestLeaseAsGranted TestForgedVerification", "S-55": "TestRenewalFails", "S-56": "TestRestartIsSpread TestRestarts",
	"S-57": "TestConformanceFeatures",

	"S-60": "TestTopicContent TestOldWire", "S-61": "TestTopicContent TestDelivered", "S-62": "TestTopicContent TestAnswers", "S-63": "TestTopicContent",
	"S-64": "TestTopicMoves TestMoved", "S-65": "TestTopicContent", "S-67": "TestTopicGoesBack TestDuplicates", "S-68": "TestUnsubscribing TestAnswers",
	"S-69": "TestOldWire TestTopicContent", "S-70": "TestOldHubs TestAnswers",

	"S-80": "TestSignatures", "S-81": "TestSignatures TestConformance", "S-82": "TestSignatures TestVerifySignatureRefuses", "S-83": "TestWeakest",
	"S-84": "TestCodings", "S-85": "TestSignatures TestForgeryFlood TestDoubtful", "S-86": "TestSignatures", "S-87": "TestSignatures TestDelivered", "S-88": "TestMoved",

	"S-90": "TestUnsubscribing", "S-91": "TestUnsubscribing TestStubbornHub TestLeaving", "S-92": "TestUnsubscribing", "S-93": "TestUnaskedUnsubscribe",

	"T-01": "TestTopicContent TestUnaskedVerification", "T-05": "TestOldHubs TestLadder TestProfileOfHub TestClimb",

	"Q-01": "TestOverrides", "Q-02": "TestOldHubs", "Q-03": "TestOldHubs", "Q-04": "TestOldHubs TestMangledCallbacks", "Q-05": "TestOldHubs",
	"Q-06": "TestOldHubs TestUnsubscribing TestUnaskedVerification TestHubIsBusy", "Q-07": "TestOldHubs TestUnaskedVerification TestHubIsBusy", "Q-08": "TestOverrides",
	"Q-09": "TestOldHubs TestDoesWithoutVerification", "Q-10": "TestOldHubs", "Q-11": "TestOldHubs TestRenewalInPlace", "Q-12": "TestOldHubs TestUnsubscribing TestDeniedAnyTime",
	"Q-13": "TestOldHubs TestRenewalInPlace", "Q-14": "TestOldHubs", "Q-15": "TestOldHubs", "Q-16": "TestOldHubs", "Q-17": "TestOldHubs TestSilentHub",
	"Q-18": "TestOldHubs TestHubDisappears", "Q-19": "TestSilentHub TestSignatures", "Q-20": "TestOldHubs TestNeverVerifies",
}

// TestRules: none is left out, and none is held by a test that is no more.
func TestRules(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{".", "../destination/subscribe", "../destination/websub"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
	}
	named := map[string]bool{}
	for rule, tests := range rules {
		named[rule[:4]] = true
		for _, name := range strings.Fields(tests) {
			if !there[name] {
				t.Errorf("%s: there is no %s", rule, name)
			}
		}
	}
	for _, group := range []struct {
		letter      string
		first, last int
	}{{"S", 20, 25}, {"S", 30, 42}, {"S", 50, 57}, {"S", 60, 65}, {"S", 67, 70}, {"S", 80, 88}, {"S", 90, 93}, {"Q", 1, 20}} {
		for n := group.first; n <= group.last; n++ {
			if rule := fmt.Sprintf("%s-%02d", group.letter, n); !named[rule] {
				t.Errorf("%s is not there", rule)
			}
		}
	}
}
