//! The tests that only `./test --thorough` runs, and why.

use crate::ci::guest;
use crate::ci::programs::Test;

/// Part of a test's full name, and the reason why the gate does without it.
const LEFT: &[(&str, &str)] = &[
    (
        guest::PREFIX,
        "runs again in an emulated guest with control groups of version 2 alone, an engine and both runtimes: minutes",
    ),
    (
        "tare::end_to_end::accounts::",
        "weighs Redis in three forms while nothing else runs; tare-stats::account:: holds the parts against rows by hand",
    ),
    (
        "chopped::the_samplers_of_all_forms_rest_together",
        "twelve seconds of turns while nothing else runs; the runner's designs:: see who is told to rest and when, \
         tare-load's turns:: spans of turns, and tare-stats::probe_cost:: finds planted costs",
    ),
    (
        "tare::end_to_end::auction::",
        "its nine services are deployed for minutes, and then killed one by one; its programs are tested by themselves",
    ),
    (
        "tare-load::databases::order_entry::the_load_keeps_the_conditions",
        "the data of a warehouse are made and asked in two ways, for half a minute; databases::order_entry:: holds its \
         functions and breaks each of its conditions on a small set",
    ),
    (
        "tare-bundle::packages::a_program_is_built_into_the_bundle_and_always_the_same",
        "a compiler is unpacked twice; tare::bundles:: builds the shipped workload that is compiled",
    ),
    (
        "tare-bundle::memory::an_image_of_a_million_entries_takes_little_memory",
        "a million files are made, for more than a minute; memory::hostile_layers_stay_small_in_memory unpacks images of \
         thousands, and names::tests:: and tree::tests:: hold what bounds them",
    ),
    (
        "tare::end_to_end::building::",
        "four builds in roots of packages, a minute and a half; tare-layers::local:: and tare-bundle::compile:: hold each bound by \
         itself",
    ),
    (
        "composing::whole_stacks_run_in_every_form",
        "three stacks are built of packages and deployed in guests, for many minutes; composing:: makes the folder of a \
         small one, and tare-compose::stacks:: reads others",
    ),
    (
        "images::services_share_a_volume_in_each_form",
        "an image is made and two services of it run in three forms; contract::services_share_a_volume_alike_in_every_form \
         holds what each form does",
    ),
    (
        "readying::a_service_may_do_its_work_and_end_before_the_next_one_starts",
        "two services run in three forms; the runner's readiness:: holds what becomes of one that ends, and readying:: \
         has one that fails in a form",
    ),
    (
        "weighing::a_tool_is_tried_before_forms_are_measured",
        "an image is imported, started and asked twice; tare's weigh::tried:: holds what is said, and weighing:: weighs an \
         image by its own protocol",
    ),
    (
        "tare-layers::vm::a_container_runs_in_a_guest_by_passt",
        "an engine boots in an emulated guest; vm::a_container_runs_in_a_guest has one there, and vm::passt_ a guest by passt",
    ),
    (
        "tare-layers::vm::several_guests_by_passt_are_one_host",
        "two emulated guests boot; vm::several_guests_are_one_host, of --thorough too, has two guests, and vm::passt_ a \
         guest by passt",
    ),
    (
        "tare-layers::vm::a_container_with_an_address_of_its_own_runs_in_a_guest",
        "an engine boots in an emulated guest; vm::a_container_runs_in_a_guest reaches one through the guest's own address",
    ),
    (
        "tare-layers::vm::a_hostile_program_is_refused_in_a_container_in_a_guest",
        "an engine boots in an emulated guest for half a minute; vm::a_hostile_program_is_refused_in_a_guest makes the \
         same attempts in one, and contract::a_hostile_program_is_refused_alike_in_every_form in a container",
    ),
    (
        "tare-layers::vm::containers_in_several_guests_are_on_one_host",
        "two engines boot in emulated guests for minutes; vm::several_guests_are_one_host, of --thorough too, has two \
         guests, and vm::a_container_runs_in_a_guest an engine in one",
    ),
    (
        "dist::twice::",
        "the program is built twice over, for minutes; dist::same:: packs one program twice, and dist::compile:: tests \
         that each folder of the machine is given another name",
    ),
    (
        "xtask::fuzz::tests::the_program_of_all_targets_compiles",
        "all crates are compiled once more, as for fuzzing; fuzz::bears_anything:: runs every target",
    ),
    (
        "dist::installed::the_package_is_installed_and_removed_without_a_trace",
        "a bare Debian is fetched to install into; dist::installed:: unpacks and runs the same tree from the tarball and \
         the image, and dist::same:: looks into the package",
    ),
    (
        "peaking::a_search_is_guided_by_a_real_server_and_on_disk",
        "two searches of half a minute on a machine that is left alone; tare::peak:: searches a server of known capacity, \
         and the runner's tests keep searches in records",
    ),
    (
        "placing::services_run_on_their_own_cpus_in_a_guest",
        "a guest of two CPUs that never rest; vm::a_guests_threads_, of --thorough too, sees where its threads run, placing:: \
         where services run",
    ),
    (
        "placing::free_services_use_all_cpus_and_unmet_requests_are_refused",
        "two services use all CPUs for half a minute; placing::services_run_ has services on their own, and tare-core's \
         placement holds what is refused",
    ),
    (
        "chopped::waiting_forms_are_frozen_if_the_study_says_so",
        "a chopped run while nothing else runs; chopped::two_forms_ has another, and tare-layers::cgroup:: freezes",
    ),
    (
        "tare::end_to_end::serving::",
        "a whole run is watched by a client of our own; browsing:: watches two in a real browser, and tare-serve::pages:: \
         reads what it is sent",
    ),
    (
        "suites::the_microbenchmarks_are_weighed_natively_and_in_containers",
        "nine programs run in two forms for more than a minute; suites:: interrupts a study of parts and refuses a figure, \
         and tools:: runs programs in forms",
    ),
    (
        "foreseeing::a_calibration_predicts_widths_and_leaves_nothing",
        "a calibration and a run of six blocks; forecasts are held against simulated runs in tare-stats",
    ),
    (
        "foreseeing::an_interrupted_calibration_leaves_nothing",
        "a calibration that is killed half way; kill:: kills runs, which end the same way",
    ),
    (
        "planted::a_cause_hidden_among_several_workers_is_found",
        "a run of twelve forms for minutes; planted::a_planted_cause_is_found runs one of two, and rules are held against \
         recorded causes in tare-stats",
    ),
    (
        "planted::a_planted_cause_within_the_server_is_found",
        "a run twice as long as that of planted::a_planted_cause_is_found; rules are held against recorded causes in tare-stats",
    ),
    (
        "strangers::what_an_image_says_is_enough_to_run_it",
        "an image is built and weighed; tare-bundle reads what images say, and images:: runs one by what it says",
    ),
    (
        "scaleout::servers_behind_a_proxy_share_the_keys_alike_in_containers_in_guests",
        "two guests with an engine each boot for minutes; the keys are compared between processes and containers",
    ),
    (
        "scaleout::servers_behind_a_proxy_share_the_keys_alike_natively_and_in_containers",
        "four services are deployed in two forms; scaleout::tiles_ deploys several side by side, and tare-load counts keys",
    ),
    (
        "scaleout::any_server_that_dies_under_load_is_named",
        "four services are deployed for each of three that are killed; trouble:: names one that dies under load alone",
    ),
    (
        "searching::an_interrupted_search_is_on_disk_and_goes_on",
        "a search twice over; searching:: runs one whole, whole:: and suites:: interrupt runs and go on, and the runner's \
         tests keep searches in records",
    ),
    (
        "tare-layers::vm::every_variant_boots",
        "three emulated guests boot; vm::a_service_runs_in_a_guest and vm::a_microvm_boots_and_serves have one each, and the \
         unit tests of vm:: hold what each variant asks of QEMU",
    ),
    (
        "tare-layers::vm::a_guests_threads_and_memory_are_where_they_were_put",
        "two emulated guests boot; the unit tests of vm:: hold which CPUs guests get, and placing:: has processes and \
         containers on their CPUs",
    ),
    (
        "tare-layers::vm::a_guest_that_reads_for_nobody_is_switched_off",
        "an emulated guest boots and hashes; vm::a_service_runs_in_a_guest ends one that is switched off, and the contract \
         of layers interrupts what reads",
    ),
    (
        "tare-layers::vm::several_guests_are_one_host",
        "two emulated guests boot; vm::a_service_runs_in_a_guest has one, and the unit tests of vm:: deal services out",
    ),
    (
        "tare-layers::vm::containers_in_a_guest_share_a_volume",
        "an engine boots in an emulated guest for minutes; vm::services_of_a_guest_share_a_volume has the same without \
         one, and contract::services_share_a_volume_alike_in_every_form an engine without a guest",
    ),
    (
        "tare::end_to_end::composing::a_compose_file_is_weighed_by_its_name_and_again_by_its_folder",
        "an image of packages is made and a stack of it built and deployed twice; tare-compose's tests hold what is read \
         of such a file, and weighing:: an image that is weighed the same way",
    ),
    (
        "tare::end_to_end::naming::",
        "two services are deployed in three forms; contract::names_of_services_are_known_in_each_network looks them up \
         in each",
    ),
    (
        "tare::end_to_end::strangers::an_image_made_elsewhere_runs_in_the_forms",
        "an image is built and run in the forms; images:: has one whose script begins as root, and tare-bundle's tests \
         read what images say",
    ),
    (
        "tare::end_to_end::makes::",
        "twenty images are built by the engine and run in three forms each, for minutes; images:: has one whose script \
         begins as root, and weighing:: one of a server alone",
    ),
    ("tare::end_to_end::secrets::", "two runs, one after the other; the runner's tests and the lock's hold each part"),
    (
        "tare::end_to_end::traces::",
        "kills a run in each form; kill:: kills one in a container, and whole:: weighs containers",
    ),
    (
        "weighing::an_image_that_listens_nowhere_is_given_up_after_a_while",
        "half a minute is waited for a port; tare's weigh::port:: holds what is said, and weighing:: refuses images that end",
    ),
    (
        "suites::the_microbenchmarks_finish_in_a_container_in_a_guest",
        "suites:: runs the microbenchmarks in a container, in --thorough too, and vm::a_container_runs_in_a_guest a \
         container in a guest",
    ),
    (
        "whole::a_feature_is_weighed_in_the_places_where_it_can_stand",
        "sixteen arms are weighed three times; tare-core's ladder and tare-stats hold which places there are and what is made \
         of them",
    ),
    (
        "whole::a_published_port_is_explained_rung_by_rung",
        "eight rungs are weighed while nothing else runs; whole:: weighs the top and the bottom, \
         tare-layers::container::rungs_differ_in_what_they_say runs each, and tare-stats holds ladders against \
         simulated ones",
    ),
    (
        "whole::redis_is_weighed_in_a_container_in_a_guest",
        "an engine boots in an emulated guest for half a minute; whole:: weighs a guest, and \
         vm::a_container_runs_in_a_guest has a container in one",
    ),
];

/// Parts of the full names of those that compile whole programs.
const BUILDS: [&str; 4] = [
    "dist::twice::",
    "tare-bundle::packages::a_program_is_built_",
    "tare::end_to_end::building::",
    "xtask::fuzz::tests::the_program_of_all_targets_compiles",
];

/// Takes out of `tests` what the gate does without, with the reasons.
pub(super) fn take(tests: &mut Vec<Test>) -> Vec<(String, &'static str)> {
    let mut left = Vec::new();
    tests.retain(|test| match reason(&test.name) {
        Some(why) => {
            left.push((test.name.clone(), why));
            false
        }
        None => true,
    });
    left
}

/// Whether the test compiles whole programs, for minutes.
pub(super) fn builds(name: &str) -> bool {
    BUILDS.iter().any(|part| name.contains(part))
}

/// Why the gate does without the test, if it does.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    LEFT.iter().find(|(part, _)| name.contains(part)).map(|(_, why)| *why)
}
