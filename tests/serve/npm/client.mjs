// client.mjs URL: asks the server with OpenAI's client, whole and streamed, and prints what came as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const model = "kcc-lab";
const prompt = "<s><user>6*8<assistant>";
const messages = [{ role: "user", content: "6*8" }];
const greedy = { model, temperature: 0, max_tokens: 40 };

const models = [];
for await (const one of client.models.list()) models.push(one.id);

const completion = await client.completions.create({ ...greedy, prompt, logprobs: 2 });
let streamed = "";
for await (const chunk of await client.completions.create({ ...greedy, prompt, stream: true })) {
  streamed += chunk.choices[0].text;
}

const chat = await client.chat.completions.create({ ...greedy, messages, logprobs: true, top_logprobs: 2 });
let chatStreamed = "";
let usage = null;
const options = { stream: true, stream_options: { include_usage: true } };
for await (const chunk of await client.chat.completions.create({ ...greedy, messages, ...options })) {
  chatStreamed += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}

let error = null;
try {
  await client.completions.create({ model, prompt: "a", max_tokens: 99999 });
} catch (caught) {
  error = { name: caught.constructor.name, status: caught.status, code: caught.code, param: caught.param };
}

console.log(JSON.stringify({ models, completion, streamed, chat, chatStreamed, usage, error }));
