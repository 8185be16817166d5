// Continue a prompt without Python: tokens in, tokens out. The folder is written by `relax.llm.load(…).export(folder)`.
//
//     complete folder 20 1 2 3                               the likeliest tokens
//     complete folder 20 --temperature 0.8 --top-p 0.9 --seed 7 1 2 3
//     complete folder 20 --sequences 3 1 2 3                 the prompt and its beginnings, together, one line each

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <relax/language_model.h>

using relax::LanguageModel;
using Tokens = LanguageModel::Tokens;

static void print(const Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) std::printf("%s%d", i ? " " : "", tokens[i]);
  std::printf("\n");
}

// Continue several prompts together: each step appends a token to every sequence.
static std::vector<Tokens> together(LanguageModel& model, const std::vector<Tokens>& prompts, int64_t count,
                                    const relax::SamplerSettings& settings) {
  LanguageModel::Batch batch;
  for (const Tokens& prompt : prompts) batch.emplace_back(model.add(), prompt);
  std::vector<relax::Sampler> samplers(prompts.size(), relax::Sampler(settings));
  std::vector<Tokens> answers(prompts.size());
  for (int64_t i = 0; i < count; ++i) {
    relax::Tensor logits = model.step(batch);
    for (size_t row = 0; row < batch.size(); ++row) {
      const float* from = logits.data<float>() + static_cast<int64_t>(row) * model.vocabulary();
      answers[row].push_back(samplers[row].sample(from, model.vocabulary()));
      batch[row].second = {answers[row].back()};
    }
  }
  return answers;
}

int main(int argc, char** argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: complete folder count [--seed 7 …] token …\n"), 2;
  relax::SamplerSettings settings;
  int64_t sequences = 1;
  Tokens prompt;
  for (int i = 3; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (std::strncmp(argv[i], "--", 2) != 0) {
      prompt.push_back(static_cast<int32_t>(std::atoi(argv[i])));
      continue;
    }
    std::string name = argv[i++];
    if (name == "--temperature") settings.temperature = std::atof(value);
    else if (name == "--top-p") settings.top_p = std::atof(value);
    else if (name == "--top-k") settings.top_k = std::atoll(value);
    else if (name == "--min-p") settings.min_p = std::atof(value);
    else if (name == "--seed") settings.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--sequences") sequences = std::atoll(value);
    else return std::fprintf(stderr, "there is no option %s\n", name.c_str()), 2;
  }
  LanguageModel model(argv[1]);
  int64_t count = std::atoll(argv[2]);
  if (sequences == 1) {
    print(model.generate(prompt, count, settings));
    return 0;
  }
  std::vector<Tokens> prompts;
  for (int64_t i = 0; i < sequences && i < static_cast<int64_t>(prompt.size()); ++i)
    prompts.emplace_back(prompt.begin(), prompt.end() - i);
  for (const Tokens& answer : together(model, prompts, count, settings)) print(answer);
  return 0;
} catch (const relax_library::Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.kind().c_str(), error.what());
  return 1;
}
