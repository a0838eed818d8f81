#include "app/doctor_command.h"

#include <cstdio>
#include <utility>

#include "app/check_config.h"
#include "app/doctor_report.h"
#include "app/exit_code.h"

namespace outrider {
namespace {

/// What is wrong with the file as a whole is told with every pipeline.
std::vector<Error> problems_of(const ConfigReport& report, const PipelineConfig& pipeline) {
  std::vector<Error> problems;
  for (const std::string& line : report.problems) {
    problems.push_back({ErrorKind::configuration, line, "outrider check-config tells all", {}});
  }
  PipelineCheck check = check_pipeline(pipeline);
  for (std::vector<Error>* some : {&check.problems, &check.missing_secrets}) {
    for (Error& error : *some) problems.push_back(std::move(error));
  }
  return problems;
}

Result<std::vector<PipelineConfig>> chosen(const ConfigReport& report, const std::string& name) {
  std::vector<PipelineConfig> pipelines;
  for (const PipelineConfig& pipeline : report.loaded.config.pipelines) {
    if (name.empty() || pipeline.name == name) pipelines.push_back(pipeline);
  }
  if (!pipelines.empty()) return pipelines;
  if (!name.empty()) {
    return fail(ErrorKind::configuration, "there is no pipeline \"" + name + "\"",
                "name one of the configuration with --pipeline");
  }
  return fail(problems_error(report.problems, report.problem_count));
}

}  // namespace

int doctor_command(const LoadRequest& request, const DoctorFlags& flags) {
  if (flags.list) {
    std::fputs(doctor_list().c_str(), stdout);
    return kExitOk;
  }
  auto report = report_config(request);
  if (!report) return report_error(report.error());
  auto pipelines = chosen(*report, flags.pipeline);
  if (!pipelines) return report_error(pipelines.error());
  int code = kExitOk;
  for (const PipelineConfig& pipeline : *pipelines) {
    if (!flags.json) {
      std::fprintf(stderr, "outrider: asking PostgreSQL and Kafka for pipeline \"%s\" ...\n",
                   pipeline.name.c_str());
    }
    const DoctorInput input =
        read_input(report->loaded.config, pipeline, flags, problems_of(*report, pipeline));
    const std::vector<Check> checks = judge_all(input);
    const std::string text =
        flags.json ? doctor_json(pipeline.name, checks) : doctor_text(pipeline.name, checks);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (count(checks).fail > 0) code = kExitChecksFailed;
  }
  return code;
}

}  // namespace outrider
